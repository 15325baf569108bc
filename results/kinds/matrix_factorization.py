"""Factors of ratings: which items, or users, are rated high or low, and how much each direction explains."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np

from analyses.job.ratings import MAX_ITEMS, digest_of_items
from dp.cost.report import describe
from results.drawing.chart import AnyPanel, rows_of
from results.generic.own_rows import Floats
from results.generic.result import Columns, Result
from results.generic.text import closing_lines

MAX_OFFSETS = 20

OFFSETS_ALONE_OF_DEVICES = (
    "Rank 0: no vectors are released, only offsets, which put items into the same order for all users, less what each "
    "has rated."
)

MOST_NAMED = 5
"""Items that are named at either end of the offsets."""


class MatrixFactorizationResult(Result):
    """Offsets and vectors of items, or of users where the parties have the same users; `of` says which."""

    analyses = ("matrix-factorization",)

    @staticmethod
    def lines_of(fields: Mapping[str, Any]) -> list[str]:
        """Return how large the model is, who was in each round, and what it costs."""
        # Here, as it comes with kernels, which take seconds to load.
        from analyses.matrix_factorization.jobs.forecast import OFFSETS_ALONE

        offsets, units, is_descent = fields["offsets"], fields["units"], fields["form"] == "sgd"
        how = ", form sgd" if is_descent else ""
        lines = [
            f"matrix factorization, {fields['setting']}{how}: {len(offsets)} {fields['of']}, rank {fields['rank']}",
            f"rounds paid: {_numbers(fields['rounds_paid'])}; opened: {_numbers(fields['rounds_opened'])}",
        ]
        n_paid = len(fields["rounds_paid"])
        if missed := n_paid - len(fields["rounds_opened"]):
            why = f"for {missed} of them too few parties were left"
            lines.append(f"the job ended early: all {n_paid} planned rounds are paid, and {why}")
        for number, one in enumerate(fields["rounds"]):
            lost = ", ".join(f"{name} (from {stage} on)" for name, stage in one["vanished"].items())
            lines.append(f"  round {number}: {', '.join(one['survivors'])}" + (f"; not {lost}" if lost else ""))
        if is_descent:
            largest = max(math.sqrt(sum(value**2 for value in vector)) for vector in fields["vectors"]) / units
            lines.append(f"vectors of a length of {largest:.3f} at most (all values: --format json)")
        else:
            lines += [_offset_line(fields), *_of_new_items(fields), *_ends(fields)]
            lines += [said] if (said := fields.get("about_offsets")) else []
            lines += [] if fields["rank"] else [OFFSETS_ALONE]
        if "items" in fields:
            whose = ", ".join(fields["items"]) or "nobody, as rounds were not opened"
            lines.append(f"items published by {whose} (all values: --format json)")
        return [*lines, *closing_lines(fields)]

    @staticmethod
    def device_lines_of(answer: Mapping[str, Any]) -> list[str]:
        """Return an answer of devices as text: how large the model is, who was in each round, what it costs."""
        offsets, units, rounds, planned = answer["offsets"], answer["units"], answer["rounds"], answer["rounds_planned"]
        form, rank = ", form sgd" if answer["form"] == "sgd" else "", answer["rank"]
        lines = [
            f"matrix factorization of {answer['record']} over devices{form}: {len(offsets)} items, rank {rank}",
            f"rounds opened: {len(rounds)} of {planned}",
        ]
        for number, one in enumerate(rounds):
            lost = ", ".join(f"{name} ({stage})" for name, stage in one["vanished"].items())
            more = f"; not in it: {lost}" if lost else ""
            lines.append(f"  round {number}: {len(one['survivors'])} devices{more}")
        if answer["ended_early_because"] is not None:
            lines.append(
                f"round {len(rounds)} was not opened: {answer['ended_early_because']}. Devices whose vectors had left "
                "have paid for it all the same; the model is that of the rounds before"
            )
        if form:
            lengths = [math.hypot(*vector) / units for vector in answer["vectors"]]
            lines.append(
                f"lengths of items' vectors, at most {math.sqrt(answer['largest']):.3f}: from {min(lengths):.3f} to "
                f"{max(lengths):.3f} (all values: --format json)"
            )
        else:
            lines += [_offset_line(answer), *_of_new_items(answer)]
            lines += [] if answer["rank"] else [OFFSETS_ALONE_OF_DEVICES]
        return [*lines, *describe(answer["privacy"], "members")]

    @staticmethod
    def panels_of(fields: Mapping[str, Any]) -> tuple[AnyPanel, ...]:
        """Return the offsets that are furthest from 0, where the form has some, and the size of each direction."""
        units, what = fields["units"], str(fields["of"])
        offsets, names = [value / units for value in fields["offsets"]], fields.get("item_names")
        vectors = np.array(fields["vectors"], dtype=np.float64).reshape(len(offsets), -1) / units
        panels: list[AnyPanel] = []
        if any(offsets):
            order = sorted(range(len(offsets)), key=lambda at: -offsets[at])
            panels.append(
                rows_of(
                    [names[at] if names else f"{what.removesuffix('s')} {at}" for at in order],
                    [offsets[at] for at in order],
                    title=f"Offsets of {what}",
                    axis=f"rating above {fields['centre']:g}",
                    what=what,
                    has_bars=True,
                    most=MAX_OFFSETS,
                )
            )
        sizes = np.linalg.svd(vectors, compute_uv=False) / max(len(offsets), 1) ** 0.5
        panels.append(
            rows_of(
                [f"direction {at}" for at in range(1, len(sizes) + 1)],
                sizes.tolist(),
                title=f"Vectors of {what}",
                axis="root mean square along it",
                what="directions",
                has_bars=True,
                note=["Directions are those of the vectors' largest spread; factors themselves have no order."],
            )
        )
        return tuple(panels)

    @property
    def offsets_(self) -> Floats:
        """How much above `centre` each is rated, shape (items,)."""
        return np.array(self.fields["offsets"], dtype=np.float64) / float(self.fields["units"])

    @property
    def components_(self) -> Floats:
        """The vectors, shape (rank, items)."""
        vectors = np.array(self.fields["vectors"], dtype=np.float64).reshape(len(self.fields["offsets"]), -1)
        return np.asarray(vectors.T / float(self.fields["units"]), dtype=np.float64)

    @property
    def start(self) -> dict[str, Any]:
        """The parameter `start` of a later job or question, which then needs new ratings only.

        Raises:
            ValueError: the result is of the form sgd, or was changed.
        """
        from analyses.matrix_factorization.jobs.earlier import start_of

        return start_of(self.fields)

    def named(self, items: Sequence[str] | str | Path) -> Self:
        """Return the same result with the names of its items, in text, tables and picture.

        Args:
            items: the public list that the owners declare, in order, or the path of a file with one on each line.

        Raises:
            ValueError: it is another list, or users were released and no items.
            TextFileError: the file cannot be read.
        """
        from service.files.name_list import read_names

        given = read_names(Path(items), MAX_ITEMS) if isinstance(items, str | Path) else tuple(items)
        result = copy(self)
        result.__dict__.pop("lines", None)
        result.fields = with_names(self.fields, given)
        return result

    def table(self) -> Columns:
        """Return a row per item or user: its place or name, its offset and the entries of its vector."""
        offsets = self.offsets_.tolist()
        called = list(self.fields.get("item_names") or range(len(offsets)))
        shown: Columns = {str(self.fields["of"]).removesuffix("s"): called, "offset": offsets}
        return shown | {f"factor_{n}": row.tolist() for n, row in enumerate(self.components_, start=1)}


def with_names(fields: Mapping[str, Any], items: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a result with the names of its items.

    Raises:
        ValueError: they are not those that the owners declare, or the result is none about items.
    """
    if fields.get("items_digest") is None:
        raise ValueError("this result has no items that could be named")
    if digest_of_items(items) != fields["items_digest"]:
        raise ValueError("this is another list of items than the one that the owners declare, or in another order")
    return {**fields, "item_names": list(items)}


def _ends(fields: Mapping[str, Any]) -> list[str]:
    """Return the items with the highest and the lowest offsets, where their names are known."""
    names, offsets, units = fields.get("item_names"), fields["offsets"], fields["units"]
    if not names:
        return []
    order = sorted(range(len(offsets)), key=lambda at: -offsets[at])
    most = min(MOST_NAMED, len(order) // 2 or 1)
    return [
        f"  {what}: " + ", ".join(f"{names[at]} {offsets[at] / units:+.3f}" for at in some)
        for what, some in (("highest", order[:most]), ("lowest", order[::-1][:most]))
    ]


def _offset_line(fields: Mapping[str, Any]) -> str:
    offsets, units = fields["offsets"], fields["units"]
    return (
        f"offsets about {fields['centre']:g}: from {min(offsets) / units:+.3f} to {max(offsets) / units:+.3f} "
        "(vectors and all values: --format json)"
    )


def _of_new_items(fields: Mapping[str, Any]) -> list[str]:
    """Return how public features move offsets, where there are some."""
    if (found := fields.get("regression")) is None:
        return []
    weights = ", ".join(f"{weight:+.3f}" for weight in found["features"])
    return [f"offset of a new item: {found['new_items']:+.3f}, and for each feature {weights}"]


def _numbers(rounds: list[int]) -> str:
    """Return the numbers of consecutive rounds, which begin with 0."""
    return "0" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
