"""An analyst's programs in Python: ask a coordinator, wait, and get results as objects. `from moiety import Client`."""

import json
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from analyses.job.forecast import Wanted
from analyses.job.job import Job
from analyses.job.plan import check_roster
from analyst.asking import AsksDevices, WaitsForDevices
from analyst.background import run
from analyst.catalogue import Catalogue
from analyst.connection import ClientConfig, connect
from analyst.planning import JobPlan, plan_of
from analyst.question import Asked, job_of, job_wanted
from results.generic.result import Result
from transport.calls.coordinator_client import CoordinatorClient, EventView, JobSummary, JobView

if TYPE_CHECKING:
    pass

Config = ClientConfig | Path | str | None
"""A configuration, or the path of `client.toml`; without, the file that MOIETY_CLIENT names, or that of the folder."""


class JobFailedError(RuntimeError):
    """A job that was to give a result was cancelled or has failed.

    Attributes:
        view: the job, with its reason, and who is at fault in which stage.
        code: code of the reason; `moiety explain` says what it means.
    """

    def __init__(self, view: JobView) -> None:
        self.code = view.code
        fault = f" (at fault: {view.culprit})" if view.culprit else ""
        super().__init__(f"job {view.job_id} is {view.state}: {view.reason}{fault}")
        self.view = view


class AsyncClient(AsksDevices):
    """An analyst's connection to its coordinator, for asynchronous programs.

    It connects when it is first used. Errors are `ServiceError`, whose text is for people.

    Args:
        config: see `Config`.

    Raises:
        SettingsError: the configuration cannot be used; the text names each wrong field.
    """

    def __init__(self, config: Config = None) -> None:
        self.config = config_of(config)
        self._open = AsyncExitStack()
        self._coordinator: CoordinatorClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; jobs go on. It opens again when the client is used again."""
        self._coordinator = None
        await self._open.aclose()

    async def tables(self) -> Catalogue:
        """Return what can be asked about: tables, columns, bounds, and which analyses their owners admit."""
        return Catalogue.of(await (await self._connected()).tables())

    async def plan(self, asked: Asked, *, within: float | None = None, of: str = "") -> JobPlan:
        """Return what a job would cost and survive, from what the parties list. Nothing is submitted.

        With `within`, half of a 95 % interval, it says besides which epsilon that error takes, of the quantity of the
        forecast whose name begins with `of`, or of the first one.

        The plan is made here, as every party makes it: refusals that follow from the job and the declared tables come
        now, but that of an infeasible job, of which the forecast tells. The policies of the owners, their budgets and
        the tables themselves may still refuse it.

        Raises:
            JobError: the job cannot be run as written, or a table or column is not listed.
            ServiceError: the coordinator cannot be reached.
        """
        from analyses.registry import analysis_of

        job = job_of(asked)
        check_roster(job, analysis_of(job).fewest_parties)
        wanted = None if within is None else Wanted(within, of)
        return plan_of(job, await self.tables(), wanted=wanted)

    async def submit(self, asked: Asked, *, key: str | None = None, anyway: bool = False) -> "AsyncSubmission":
        """Submit a job.

        Args:
            asked: a question, a job, or the path of a job file.
            key: submitting again with the same key gives the same job; by default every submission is another job.
            anyway: run the job even where no answer could be seen in its noise; owners who approve it are told.

        Raises:
            JobError: the job cannot be run as written.
            ServiceError: the coordinator cannot be reached or refuses it.
        """
        job = job_wanted(asked, anyway=anyway)
        coordinator = await self._connected()
        job_id = await coordinator.submit(job.canonical_json(), uuid.uuid4().hex if key is None else key)
        return AsyncSubmission(self, job_id)

    async def run(
        self, asked: Asked, *, show: Callable[[EventView], object] | None = None, anyway: bool = False
    ) -> Result:
        """Submit a job, wait for its end and return its result; arguments and errors as `submit` and `watch`."""
        return await (await self.submit(asked, anyway=anyway)).watch(show)

    def job(self, job_id: str) -> "AsyncSubmission":
        """Return a job that was submitted earlier, from here or from elsewhere. Contacts nobody."""
        return AsyncSubmission(self, job_id)

    async def jobs(self, limit: int = 20) -> list[JobSummary]:
        """Return the analyst's jobs, newest first; `limit` 0 means all."""
        return await (await self._connected()).jobs(limit)

    async def _connected(self) -> CoordinatorClient:
        if self._coordinator is None:
            self._coordinator = await self._open.enter_async_context(connect(self.config))
        return self._coordinator


class AsyncSubmission:
    """A job that was submitted.

    Attributes:
        job_id: its identifier.
    """

    def __init__(self, client: AsyncClient, job_id: str) -> None:
        self._client = client
        self.job_id = job_id

    def __repr__(self) -> str:
        return f"<job {self.job_id}>"

    async def events(self) -> AsyncIterator[EventView]:
        """Yield what happens to the job, from its beginning to its end."""
        coordinator = await self._client._connected()
        async for event in coordinator.watch(self.job_id):
            yield event

    async def watch(self, show: Callable[[EventView], object] | None = None) -> Result:
        """Wait for the end of the job and return its result.

        Args:
            show: is called with each event, for instance `print`.

        Raises:
            JobFailedError: it has failed or was cancelled.
        """
        async for event in self.events():
            if show is not None:
                show(event)
        return await self.result()

    async def view(self) -> JobView:
        """Return how the job stands now."""
        return await (await self._client._connected()).show(self.job_id)

    async def result(self) -> Result:
        """Return the result of a job that has ended.

        Raises:
            JobFailedError: it has failed, was cancelled, or has not ended yet.
        """
        view = await self.view()
        if view.state != "DONE":
            raise JobFailedError(view)
        return result_of(view)

    async def cancel(self) -> JobView:
        """Cancel the job and return how it stands then."""
        return await (await self._client._connected()).cancel(self.job_id)


def result_of(view: JobView) -> Result:
    """Return the result of a job that is DONE; raises `ValueError` where it has none."""
    from results.registry import result_of

    if not view.result_json:
        raise ValueError(f"job {view.job_id} has no result: it is {view.state}")
    job, plan = Job.from_json(view.job_json), json.loads(view.plan_json) if view.plan_json else {}
    return result_of(job, json.loads(view.result_json), plan, view.job_id)


class Client(WaitsForDevices):
    """An analyst's connection to its coordinator, for programs that wait, and for notebooks.

    Arguments and errors are those of `AsyncClient`.
    """

    def __init__(self, config: Config = None) -> None:
        self._client = AsyncClient(config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def config(self) -> ClientConfig:
        """Whom it talks to."""
        return self._client.config

    def close(self) -> None:
        """See `AsyncClient.close`."""
        run(self._client.close())

    def tables(self) -> Catalogue:
        """See `AsyncClient.tables`."""
        return run(self._client.tables())

    def plan(self, asked: Asked, *, within: float | None = None, of: str = "") -> JobPlan:
        """See `AsyncClient.plan`."""
        return run(self._client.plan(asked, within=within, of=of))

    def submit(self, asked: Asked, *, key: str | None = None, anyway: bool = False) -> "Submission":
        """See `AsyncClient.submit`."""
        return Submission(run(self._client.submit(asked, key=key, anyway=anyway)))

    def run(self, asked: Asked, *, show: Callable[[EventView], object] | None = None, anyway: bool = False) -> Result:
        """See `AsyncClient.run`."""
        return self.submit(asked, anyway=anyway).watch(show)

    def job(self, job_id: str) -> "Submission":
        """See `AsyncClient.job`."""
        return Submission(self._client.job(job_id))

    def jobs(self, limit: int = 20) -> list[JobSummary]:
        """See `AsyncClient.jobs`."""
        return run(self._client.jobs(limit))


class Submission:
    """A job that was submitted; see `AsyncSubmission`."""

    def __init__(self, submission: AsyncSubmission) -> None:
        self._submission = submission

    def __repr__(self) -> str:
        return repr(self._submission)

    @property
    def job_id(self) -> str:
        """Its identifier."""
        return self._submission.job_id

    def events(self) -> Iterator[EventView]:
        """See `AsyncSubmission.events`."""
        events = self._submission.events()

        async def following() -> EventView | None:
            return await anext(events, None)

        try:
            while (event := run(following())) is not None:
                yield event
        finally:
            run(_closed(events))

    def watch(self, show: Callable[[EventView], object] | None = None) -> Result:
        """See `AsyncSubmission.watch`; an interrupt leaves the job going."""
        for event in self.events():
            if show is not None:
                show(event)
        return self.result()

    def view(self) -> JobView:
        """See `AsyncSubmission.view`."""
        return run(self._submission.view())

    def result(self) -> Result:
        """See `AsyncSubmission.result`."""
        return run(self._submission.result())

    def cancel(self) -> JobView:
        """See `AsyncSubmission.cancel`."""
        return run(self._submission.cancel())


def config_of(config: Config) -> ClientConfig:
    """Return the configuration that is meant; raises as `AsyncClient`."""
    if isinstance(config, ClientConfig):
        return config
    path = os.environ.get("MOIETY_CLIENT", "client.toml") if config is None else config
    return ClientConfig.load(Path(path))


async def _closed(events: AsyncIterator[EventView]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(events, "aclose", None)
    if close is not None:
        await close()
