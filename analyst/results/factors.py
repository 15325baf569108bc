"""The factors of ratings."""

import numpy as np

from analyst.results.own_rows import Floats
from analyst.results.result import Columns, Result


class MatrixFactorizationResult(Result):
    """Offsets and vectors of items, or of users where the parties have the same users; `of` says which."""

    analyses = ("matrix-factorization",)

    @property
    def offsets_(self) -> Floats:
        """How much above `centre` each is rated, shape (items,)."""
        return np.array(self.fields["offsets"], dtype=np.float64) / float(self.fields["units"])

    @property
    def components_(self) -> Floats:
        """The vectors, shape (rank, items)."""
        vectors = np.array(self.fields["vectors"], dtype=np.float64).reshape(len(self.fields["offsets"]), -1)
        return np.asarray(vectors.T / float(self.fields["units"]), dtype=np.float64)

    def table(self) -> Columns:
        """Return a row per item or user: its place, its offset and the entries of its vector."""
        offsets = self.offsets_.tolist()
        shown: Columns = {str(self.fields["of"]).removesuffix("s"): list(range(len(offsets))), "offset": offsets}
        return shown | {f"factor_{n}": row.tolist() for n, row in enumerate(self.components_, start=1)}
