"""The coordinator's own service, but for what it shows: another plan of the same job to some of its parties.

Run like `moiety coordinator serve`. `LIES` in the environment names a JSON file: the title of a job to the lie about
it. A job without a lie is run honestly.
"""

import asyncio
import copy
import json
import os
from pathlib import Path

import coordinator.runner
from analyses.job.job import Job
from analyses.job.schema import BlockSchema
from analyses.registry import analysis_of
from cli.main import app
from coordinator.proposal import Proposal

LIES = "MOIETY_TEST_LIES"


class TwoFacedProposal(Proposal):
    """Shows the victims of a lie another job, another analyst or other schemas than all others, each with its digest.

    A lie has `victims` (names) and what they are shown: `job` (fields), `analyst`, `upper` (of the first column of a
    party, by its name; where it has ratings, one user more than it declares).
    """

    def __init__(self, job_id, job, **others):
        super().__init__(job_id, job, **others)
        self._lie = json.loads(Path(os.environ[LIES]).read_text()).get(job.title, {})
        self._schemas = []
        shown = Job.model_validate({**json.loads(job.canonical_json()), **self._lie.get("job", {})})
        self._shown = copy.copy(self)
        self._shown._job = shown
        self._shown._members = dict(enumerate(shown.members, start=1))
        self._shown._analyst = self._lie.get("analyst", self._analyst)

    def _is_victim(self, party):
        return party.identity.name in self._lie.get("victims", ())

    async def propose(self):
        self._schemas = await super().propose()
        return self._schemas

    async def _ask(self, party):
        return await Proposal._ask(self._shown if self._is_victim(party) else self, party)

    async def _reserve_at(self, party, schemas_json, digest, agreed):
        if self._is_victim(party):
            job, by_party = self._shown._job, {schema.party: self._falsified(schema) for schema in self._schemas}
            schemas = [by_party[member] for member in job.members]
            plan = await asyncio.to_thread(analysis_of(job).plan, job, schemas)
            schemas_json, digest = [schema.canonical_json() for schema in schemas], plan.digest()
        return await super()._reserve_at(party, schemas_json, digest, agreed)

    def _falsified(self, schema: BlockSchema) -> BlockSchema:
        if schema.party not in self._lie.get("upper", {}):
            return schema
        if schema.ratings is not None:
            more = {"users": schema.ratings.users + 1}
            return schema.model_copy(update={"ratings": schema.ratings.model_copy(update=more)})
        first, *rest = schema.columns
        first = first.model_copy(update={"upper": self._lie["upper"][schema.party]})
        return schema.model_copy(update={"columns": (first, *rest)})


def main() -> None:
    """Be the command, with a coordinator that lies; a forked service calls this."""
    coordinator.runner.Proposal = TwoFacedProposal
    app()


if __name__ == "__main__":
    main()
