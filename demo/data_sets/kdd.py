"""The demo's data: connections of a network, of which three organisations each saw a part.

The KDD Cup 1999 data describe connections to hosts in a network by features of three origins: the headers of the
packets, the contents of the session on the host, and statistics over the other connections around the same time. That
is a natural split by columns: the *carrier* that moved the packets, the operator of the *host*, and the *monitor*
that watches the network know three different things about the same connections.

The bounds below are public constants. They come from the published description of the features, and from round numbers
where a feature has no limit of its own; none was computed from the data. `data/kddcup99/TERMS.md` cites the source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analyses.job.schema import BlockSchema, ColumnSchema, Table
from demo.local_deployment import LocalTable

TABLE_NAME = "connections"
DESCRIPTION = "KDD Cup 1999 connections"
ID_COLUMN = "connection_id"

MIN_ROWS, MAX_ROWS = 1000, 200_000
"""What the parties declare publicly of their number of rows."""

Bounds = tuple[float, float]

_SERVICES = """
IRC X11 Z39_50 auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec finger
ftp ftp_data gopher hostnames http http_443 imap4 iso_tsap klogin kshell ldap link login mtp name netbios_dgm
netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i remote_job rje
shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet whois
"""

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "protocol_type": ("icmp", "tcp", "udp"),
    "flag": ("OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH"),
    "service": tuple(_SERVICES.split()),
}
"""Categorical feature to its values, as published with the benchmark.

A federation agrees on such lists beforehand: a party that took them from its rows would tell which values occur there.
"""

YES_OR_NO: Bounds = (0, 1)
RATE: Bounds = (0, 1)
# Counts of rare events on a host have no limit of their own. Most connections have none; sixteen is a lot.
FEW: Bounds = (0, 16)
# Bytes and seconds are heavy-tailed and have no limit either. Above these a connection counts as "large" and "long",
# whatever its exact size: 64 KiB is the largest IP datagram and the largest TCP window without scaling.
BYTES: Bounds = (0, 65536)
SECONDS: Bounds = (0, 3600)

NUMERIC: Mapping[str, Mapping[str, Bounds]] = {
    "carrier": {
        "duration": SECONDS,
        "src_bytes": BYTES,
        "dst_bytes": BYTES,
        "land": YES_OR_NO,  # source and destination are the same address and port
        "wrong_fragment": (0, 4),
        "urgent": (0, 4),
    },
    "host": {
        "hot": FEW,
        "num_failed_logins": (0, 5),  # login programs hang up after this many
        "logged_in": YES_OR_NO,
        "num_compromised": FEW,
        "root_shell": YES_OR_NO,
        "su_attempted": YES_OR_NO,  # so described; the few other values in the file are clipped
        "num_root": FEW,
        "num_file_creations": FEW,
        "num_shells": (0, 4),
        "num_access_files": FEW,
        "num_outbound_cmds": FEW,
        "is_host_login": YES_OR_NO,
        "is_guest_login": YES_OR_NO,
    },
    "monitor": {
        "count": (0, 511),  # connections to the same host in the past two seconds, a counter of nine bits
        "srv_count": (0, 511),
        "serror_rate": RATE,
        "srv_serror_rate": RATE,
        "rerror_rate": RATE,
        "srv_rerror_rate": RATE,
        "same_srv_rate": RATE,
        "diff_srv_rate": RATE,
        "srv_diff_host_rate": RATE,
        "dst_host_count": (0, 255),  # a counter of eight bits
        "dst_host_srv_count": (0, 255),
        "dst_host_same_srv_rate": RATE,
        "dst_host_diff_srv_rate": RATE,
        "dst_host_same_src_port_rate": RATE,
        "dst_host_srv_diff_host_rate": RATE,
        "dst_host_serror_rate": RATE,
        "dst_host_srv_serror_rate": RATE,
        "dst_host_rerror_rate": RATE,
        "dst_host_srv_rerror_rate": RATE,
    },
}
"""Party to its numeric features and their public bounds."""

# How long a scaled row can be, from what the columns mean; the same numbers, argued, stand in examples/pca.toml.
ROW_NORM = 4.0
NORM_BOUNDS: Mapping[str, float] = {"carrier": 1.75, "host": 1.75, "monitor": 3.0}

CATEGORICAL: Mapping[str, tuple[str, ...]] = {
    "carrier": ("protocol_type", "flag"),
    "host": (),
    "monitor": ("service",),
}
"""Party to its categorical features: each becomes one column of zeros and ones per category."""

ON_REQUEST: Mapping[str, Mapping[str, Bounds]] = {
    "carrier": {"protocol": (0, len(CATEGORIES["protocol_type"]) - 1)},  # the place in the list above
    "host": {},
    "monitor": {"is_attack": YES_OR_NO},  # anything but normal traffic, as the benchmark labels it
}
"""Party to columns that only jobs get that name them: codes of categories, and what other columns may predict."""


@dataclass(frozen=True)
class KddParties:
    """What `write_kdd_parties` made.

    Attributes:
        tables: party to its table, in the order of the joint table's columns.
        pooled: shape (rows, 118), unscaled and unclipped, the usual columns: what nobody in the federation has. For
            comparison only.
        on_request: party to its columns on request, shape (rows, columns). For comparison only.
    """

    tables: Mapping[str, LocalTable]
    pooled: NDArray[np.float64] = field(repr=False)
    on_request: Mapping[str, NDArray[np.float64]] = field(repr=False)

    def in_memory(self, wanted: Mapping[str, Sequence[str]] | None = None) -> list[Table]:
        """Return tables as an analysis gets them.

        Args:
            wanted: party to the columns that a job names, in the order of its inputs; all usual columns where absent.
        """
        blocks, start = {}, 0
        for party, table in self.tables.items():
            usual = table.usual_bounds
            own = self.pooled[:, start : start + len(usual)]
            blocks[party] = dict(zip(usual, own.T, strict=True)) | dict(
                zip(table.on_request, self.on_request[party].T, strict=True)
            )
            start += len(usual)
        if wanted is None:
            wanted = {party: list(table.usual_bounds) for party, table in self.tables.items()}
        tables = []
        for party, names in wanted.items():
            bounds = self.tables[party].bounds
            columns = tuple(ColumnSchema(name=c, lower=bounds[c][0], upper=bounds[c][1]) for c in names)
            values = np.column_stack([blocks[party][name] for name in names])
            schema = BlockSchema(party=party, columns=columns, has_ids=True, rows=self.tables[party].rows)
            tables.append(Table(schema, values))
        return tables


def bounds_of(party: str) -> dict[str, Bounds]:
    """Return the usual columns of a party with their public bounds: the numeric ones, then one per category."""
    encoded = [f"{feature}_{value}" for feature in CATEGORICAL[party] for value in CATEGORIES[feature]]
    return {**NUMERIC[party], **dict.fromkeys(encoded, YES_OR_NO)}


def write_kdd_parties(folder: Path, *, rows: int | None = None, most_rows: int = MAX_ROWS) -> KddParties:
    """Write one table per party, `<party>.parquet`, with the same rows in the same order.

    Args:
        folder: where to; must exist.
        rows: how many, spread evenly over the file; all 145,586 where absent.
        most_rows: what the parties declare at most. At least, they declare MIN_ROWS, or `rows` where that is less.

    Returns:
        The tables (carrier 20, host 13, monitor 85 usual columns) and the pooled matrix.

    Raises:
        ValueError: fewer rows than one or more than there are.
    """
    connections = _read_connections(rows)
    tables, blocks, on_request = {}, [], {}
    for party in NUMERIC:
        usual, asked_for = bounds_of(party), ON_REQUEST[party]
        block = connections.select(ID_COLUMN, *map(_column, (*usual, *asked_for)))
        path = folder / f"{party}.parquet"
        block.write_parquet(path)
        tables[party] = LocalTable(
            name=TABLE_NAME,
            path=path,
            bounds={**usual, **asked_for},
            rows=(min(MIN_ROWS, len(connections)), most_rows),
            id_column=ID_COLUMN,
            on_request=tuple(asked_for),
        )
        blocks.append(block.select(*usual).cast(pl.Float64).to_numpy())
        on_request[party] = block.select(*asked_for).cast(pl.Float64).to_numpy().reshape(len(block), len(asked_for))
    return KddParties(tables, np.hstack(blocks), on_request)


def _column(name: str) -> pl.Expr:
    """Return a column of a party's table: a feature of the file, or made from a categorical one."""
    if name == "is_attack":
        return (pl.col("label") != "normal").cast(pl.UInt8).alias(name)
    if name == "protocol":
        codes = {value: code for code, value in enumerate(CATEGORIES["protocol_type"])}
        return pl.col("protocol_type").replace_strict(codes, return_dtype=pl.UInt8).alias(name)
    for feature in CATEGORIES:
        if name.startswith(f"{feature}_"):
            return (pl.col(feature) == name.removeprefix(f"{feature}_")).cast(pl.UInt8).alias(name)
    return pl.col(name)


def _read_connections(rows: int | None) -> pl.DataFrame:
    with as_file(files("cli") / "data" / "kddcup99" / "distinct.csv.gz") as path:
        connections = pl.read_csv(path)
    n_rows = len(connections)
    if rows is not None and not 1 <= rows <= n_rows:
        raise ValueError(f"rows: {rows} is not between 1 and {n_rows}")
    identified = connections.with_row_index(ID_COLUMN).with_columns(
        pl.format("c{}", pl.col(ID_COLUMN).cast(pl.String).str.zfill(6)).alias(ID_COLUMN)
    )
    return identified if rows is None else identified[np.linspace(0, n_rows - 1, rows).astype(np.int64)]
