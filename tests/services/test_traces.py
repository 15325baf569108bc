"""Spans of real services, as a collector receives them by OTLP."""

import http.server
import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import pytest
from federation import Analyst, pca_job, random_values, tables_of
from forked_services import ForkedDeployment

from demo.local_deployment import COORDINATOR_NAME
from demo.loopback import toml
from service.watch.traces import ids_of

PARTIES = ("bank", "hospital", "telco")
ROWS = 437


def test_nothing_of_the_library_is_imported_where_a_service_has_no_section():
    code = "import sys, party.server, coordinator.server; sys.exit(any('opentelemetry' in m for m in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)


@dataclass
class TracedDeployment(ForkedDeployment):
    """Every service sends its spans to one place."""

    endpoint: str = ""

    def write_files(self) -> None:
        super().write_files()
        for name in (*self.tables, COORDINATOR_NAME):
            path = self.config_path(name)
            path.write_text(path.read_text() + "\n" + toml({}, {"traces": {"endpoint": self.endpoint}}))


@dataclass
class Collector:
    """Keeps the requests that come by HTTP."""

    bodies: list[bytes] = field(default_factory=list)

    def __enter__(self):
        bodies = self.bodies

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1/traces"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A job that is done and one that is refused, and what the collector has of them: (service, span)."""
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    folder = tmp_path_factory.mktemp("traces")
    tables = tables_of({name: random_values((ROWS, 2), seed) for seed, name in enumerate(PARTIES)}, folder)
    (folder / "run").mkdir()
    with Collector() as collector:
        environment = {"OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        with TracedDeployment(
            folder / "run", tables, endpoint=collector.endpoint, environment=environment
        ) as deployment:
            analyst = Analyst(deployment)
            done = analyst.run(pca_job(PARTIES))
            refused = analyst.run(pca_job(PARTIES, privacy={"epsilon": 1.0, "delta": 1e-2}))
        spans = []
        for body in collector.bodies:
            for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = {item.key: item.value.string_value for item in one.resource.attributes}
                spans += [(resource, span) for scope in one.scope_spans for span in scope.spans]
    return done, refused, spans


def told(span) -> dict[str, str]:
    return {item.key: item.value.string_value for item in span.attributes}


def test_all_members_spans_of_a_job_meet_in_the_trace_that_follows_from_its_identifier(run):
    done, _, spans = run
    trace_id, root_id = ids_of(done.job_id)
    ours = [(resource, span) for resource, span in spans if int.from_bytes(span.trace_id, "big") == trace_id]
    by_id = {span.span_id: (resource, span) for resource, span in ours}
    root = by_id[root_id.to_bytes(8, "big")]
    assert root[0]["service.name"] == "moiety-coordinator"
    assert root[1].parent_span_id == b""
    assert told(root[1]) == {
        "moiety.job": done.job_id,
        "moiety.member": COORDINATOR_NAME,
        "moiety.state": "DONE",
        "moiety.reason": "",
    }
    for party in PARTIES:
        (job,) = [span for _, span in ours if span.name == f"job at {party}"]
        assert job.parent_span_id == root[1].span_id
        own = [span for resource, span in ours if resource["service.instance.id"] == party and span is not job]
        assert {span.parent_span_id for span in own} == {job.span_id}
        assert {"reading", "opening"} <= {span.name for span in own}
        assert all(job.start_time_unix_nano <= s.start_time_unix_nano <= s.end_time_unix_nano for s in own)
        assert {s.name for _, s in ours if s.parent_span_id == root[1].span_id and told(s)["moiety.member"] == party}


def test_a_refused_job_has_the_kind_of_its_reason_and_no_text(run):
    _, refused, spans = run
    assert refused.state == "FAILED"
    trace_id, _ = ids_of(refused.job_id)
    (root,) = [span for _, span in spans if int.from_bytes(span.trace_id, "big") == trace_id]
    assert told(root)["moiety.reason"] == "budget"
    assert root.status.message == ""


def test_spans_hold_public_words_only(run):
    done, _, spans = run
    assert spans
    for resource, span in spans:
        assert set(told(span)) <= {"moiety.job", "moiety.member", "moiety.stage", "moiety.state", "moiety.reason"}
        assert not span.events
        text = json.dumps([resource, span.name, told(span)])
        for private in (str(ROWS), "analyst", "epsilon", "Private"):
            assert private not in text.replace(done.job_id, "")
