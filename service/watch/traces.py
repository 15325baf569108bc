"""Traces of jobs by OpenTelemetry, where the service's file asks for them: a span for a job, one for each stage of it.

All members of a job derive the identifier of its trace from the job's identifier, which all of them know: their spans
meet in one trace, and no member takes an identifier from another. Spans say what metrics say, job by job: identifier
of the job, member, stage, state, and the kind of reason. No values, no rows, no epsilon, no names of analysts, no
texts of others.

The library is an extra (`pip install moiety[otel]`) and is imported where a service has a section `[traces]` only. Its
own instrumentation of gRPC is not used: it records peers and texts of errors.
"""

import hashlib
from typing import Any

from service.settings import Settings
from service.settings_tree import SettingsError
from service.watch.reasons import kind_of


class TracesConfig(Settings):
    """Section `[traces]`: spans of jobs, sent to a collector by OTLP over HTTP. Without the section there are none.

    A span says how long a stage took, which at a party grows with the rows of its table: send them to a collector of
    your own.

    Attributes:
        endpoint: the collector's URL for traces, for instance `http://127.0.0.1:4318/v1/traces`. Without it, and for
            everything else, the standard environment counts (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`).
    """

    endpoint: str | None = None


class Traces:
    """The spans of one service.

    Args:
        config: section `[traces]`.
        name: name of the member.
        role: `party` or `coordinator`.

    Raises:
        SettingsError: the library is not installed.
    """

    def __init__(self, config: TracesConfig, name: str, role: str) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
        except ImportError as error:
            raise SettingsError("traces: OpenTelemetry is not installed; pip install moiety[otel]") from error
        self._trace = trace
        self._ids = _IdsOfJobs(RandomIdGenerator())
        resource = Resource.create({"service.name": f"moiety-{role}", "service.instance.id": name})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=config.endpoint)))
        self._tracer = self._provider.get_tracer("moiety")
        self._name = name
        self._is_root = role == "coordinator"
        self._jobs: dict[str, Any] = {}
        self._stages: dict[tuple[str, str], Any] = {}

    def stage(self, job_id: str, member: str, stage: str) -> None:
        """Begin a stage of a member in a job; the one before it ends."""
        self.begin(job_id)
        self._end_stage((job_id, member))
        context = self._trace.set_span_in_context(self._jobs[job_id])
        told = {"moiety.job": job_id, "moiety.member": member, "moiety.stage": stage}
        self._stages[job_id, member] = self._tracer.start_span(stage, context, attributes=told)

    def begin(self, job_id: str) -> None:
        """Begin the span of a job, unless it has begun."""
        if job_id in self._jobs:
            return
        trace_id, root_id = ids_of(job_id)
        told = {"moiety.job": job_id, "moiety.member": self._name}
        if self._is_root:
            self._ids.next = (trace_id, root_id)
            self._jobs[job_id] = self._tracer.start_span("job", self._trace.Context(), attributes=told)
            return
        flags = self._trace.TraceFlags(self._trace.TraceFlags.SAMPLED)
        root = self._trace.SpanContext(trace_id, root_id, is_remote=True, trace_flags=flags)
        context = self._trace.set_span_in_context(self._trace.NonRecordingSpan(root))
        self._jobs[job_id] = self._tracer.start_span(f"job at {self._name}", context, attributes=told)

    def end(self, job_id: str, state: str, reason: str) -> None:
        """End the span of a job and those of its stages.

        Args:
            job_id: which.
            state: how it ended.
            reason: a public text, of which only the kind is kept.
        """
        for key in [key for key in self._stages if key[0] == job_id]:
            self._end_stage(key)
        span = self._jobs.pop(job_id, None)
        if span is None:
            return
        span.set_attributes({"moiety.state": state, "moiety.reason": kind_of(reason)})
        if state != "DONE":
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    def close(self) -> None:
        """Send what is left; may take some seconds where the collector does not answer."""
        self._provider.shutdown()

    def _end_stage(self, key: tuple[str, str]) -> None:
        span = self._stages.pop(key, None)
        if span is not None:
            span.end()


class _IdsOfJobs:
    """The library's identifiers, but for the span of a job at the coordinator."""

    def __init__(self, others: Any) -> None:
        self._others = others
        self.next: tuple[int, int] | None = None

    def is_trace_id_random(self) -> bool:
        """Whether trace identifiers are random: they are as good as that, being digests of random identifiers."""
        return True

    def generate_trace_id(self) -> int:
        """Return that of the job that begins now, or a random one."""
        return int(self._others.generate_trace_id()) if self.next is None else self.next[0]

    def generate_span_id(self) -> int:
        """Return that of the job that begins now, once, or a random one."""
        if self.next is None:
            return int(self._others.generate_span_id())
        (_, span_id), self.next = self.next, None
        return span_id


def ids_of(job_id: str) -> tuple[int, int]:
    """Return the identifiers of the trace of a job and of its first span: 128 and 64 bits of a digest."""
    digest = hashlib.sha256(f"moiety trace of job {job_id}".encode()).digest()
    return int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")
