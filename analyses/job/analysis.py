"""The description of an analysis that the rest of the code uses: one `ANALYSIS` value in each protocol module."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from pydantic import ValidationError

from analyses.job.declared_rows import MAX_ROWS, JointRowsParams
from analyses.job.job import Job, JobError, PublicModel, explain
from analyses.job.plan import Plan, check_unit
from analyses.job.schema import BlockSchema, LocalReport, Table
from analyses.job.survival import Survival
from analyses.job.text import lines_of_result
from mpc.protocol.session import Session


@dataclass(frozen=True)
class Analysis:
    """An analysis, or several that differ only in their name.

    Attributes:
        names: by which jobs ask for it. The example of each is the file of that name in `examples/`.
        parameters: what a job's parameters must be, apart from what follows from owners' tables.
        plan: fixes everything public from the job and the public columns of all members. Called through this value, it
            refuses with `JobError` to protect records where the job asks that persons are protected.
        party: runs a party's part; its table is None where it only computes.
        coordinator: runs the coordinator's part and returns the result, JSON-able.
        survival: returns how many parties may drop out or send corrupted shares; it depends on the job alone.
        page: the page of the documentation, below `docs/`.
        demo: the command of `moiety demo` that shows it.
        reference: computes the same in plain NumPy where somebody holds all tables: no privacy.
        lines: the result as text for people, by default field by field.
        has_plot: whether its result has the components and eigenvalues that `moiety job show --plot` draws.
        may_be_exact: whether a job may leave out its privacy target and get an answer without noise.
    """

    names: tuple[str, ...]
    parameters: type[PublicModel]
    plan: Callable[[Job, Sequence[BlockSchema]], Plan]
    party: Callable[[Session, Any, Table | None], Awaitable[LocalReport]]
    coordinator: Callable[[Session, Any], Awaitable[dict[str, Any]]]
    survival: Callable[[Job], Survival]
    page: str
    demo: str
    reference: Callable[..., Any] | None = None
    lines: Callable[[dict[str, Any]], list[str]] = lines_of_result
    has_plot: bool = False
    may_be_exact: bool = False

    def __post_init__(self) -> None:
        """Let no plan leave this value that does not protect the persons whom its job asks to protect."""
        own = self.plan

        @wraps(own)
        def checked(job: Job, schemas: Sequence[BlockSchema]) -> Plan:
            made = own(job, schemas)
            check_unit(job, made)
            return made

        object.__setattr__(self, "plan", checked)

    @property
    def examples(self) -> tuple[str, ...]:
        """The files in `examples/` with a job of each name."""
        return tuple(f"{name}.toml" for name in self.names)

    def check_parameters(self, job: Job) -> None:
        """Refuse parameters that are invalid for any tables: unknown ones and ones that are out of range.

        Raises:
            JobError: names each field.
        """
        unstated = {"max_rows": MAX_ROWS} if issubclass(self.parameters, JointRowsParams) else {}
        try:
            self.parameters.model_validate(unstated | job.parameters)
        except ValidationError as error:
            raise JobError("\n".join(f"parameters.{line}" for line in explain(error).splitlines())) from error
