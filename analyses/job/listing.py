"""What a party says of its tables to an analyst who looks for something to ask: public declarations only."""

from typing import Annotated, Literal

from pydantic import Field

from analyses.job.job import JobInput, Name, PublicModel
from analyses.job.schema import BlockSchema, columns_called

Consent = Literal["at once", "owner"]
"""How a job would be admitted: without asking, or once the owner of the table agrees."""


class ListedBudget(PublicModel):
    """What remains of a table's privacy budget, shown where its owner permits it.

    Attributes:
        unit: what is protected.
        period: its name.
        epsilon, delta: the whole budget of the period.
        remaining_epsilon: about what remains. Epsilons do not simply add up: `remaining_part` decides.
        remaining_part: a job that alone uses no more of the budget than this part is admitted.
    """

    unit: str
    period: str
    epsilon: float
    delta: float
    remaining_epsilon: float
    remaining_part: float


class ListedTable(PublicModel):
    """One table, as far as an analyst may use it.

    Attributes:
        name: name that jobs use.
        block: its public columns with their bounds, the rows that it may have, and whether it names rows and persons.
        usual: names of the columns of a job that names none.
        admitted: analysis that the owner's policy does not refuse, to how a job would be admitted. Further limits of
            the policy, on epsilon for instance, are said when a job breaks them.
        filters: name of a filter that a job may name to what rows pass it, in words.
        may_be_exact: whether exact answers, without noise, are allowed.
        budget: what remains; None where the owner does not permit that it is seen, or there is none.
    """

    name: Name
    block: BlockSchema
    usual: tuple[str, ...]
    admitted: dict[str, Consent]
    filters: Annotated[dict[Name, str], Field(exclude_if=lambda filters: not filters)] = Field(default_factory=dict)
    may_be_exact: bool = False
    budget: ListedBudget | None = None

    def schema_of(self, brought: JobInput) -> BlockSchema:
        """Return the public columns that a job would get.

        Raises:
            KeyError: the table has no such column for this analyst, or no such filter.
        """
        usual = set(self.usual)
        columns = tuple(column for column in self.block.columns if column.name in usual)
        if brought.columns:
            columns = columns_called(self.block.columns, brought.columns)
        where = None if brought.where is None else self.filters[brought.where]
        return self.block.model_copy(update={"columns": columns, "where": where})


class Listing(PublicModel):
    """The tables of one party that an analyst may use.

    Attributes:
        party: whose.
        tables: in the order of its configuration.
    """

    party: Name
    tables: tuple[ListedTable, ...] = ()
