"""Connections to relays that change or are cut: another relay at SIGHUP, a proxy, a firewall that cuts silent links."""

import signal
import time
from typing import ClassVar

import pytest
from deadlines import GENEROUS_S
from federation import Analyst, jobs_paid, pca_job, random_values, result_of, tables_of
from forked_services import ForkedDeployment
from silent_cuts import CutsSilent
from squid import Squid, a_password, needs_squid

from demo.local_deployment import COORDINATOR_NAME, HUB
from demo.loopback import loopback_addresses, toml
from demo.ports import free_row_of_ports

PARTIES = ("bank", "clinic", "shop")
VALUES = {name: random_values((100, 2), seed) for seed, name in enumerate(PARTIES)}


def deployed(kind, folder, **how):
    (folder / "run").mkdir()
    return kind(folder / "run", tables_of(VALUES, folder), dial_out=PARTIES, **how)


def run_job(deployment, **how):
    """Run a job that each party pays for once."""
    before = jobs_paid(deployment, PARTIES)
    result_of(Analyst(deployment).run(pca_job(PARTIES), **how))
    assert jobs_paid(deployment, PARTIES) == {name: paid + 1 for name, paid in before.items()}


def test_parties_change_to_another_relay_at_sighup(tmp_path):
    with deployed(ForkedDeployment, tmp_path, relays=("north", "south")) as running:
        for name in (*PARTIES, COORDINATOR_NAME):
            path, entry = (
                running.config_path(name),
                "\n[[relays]]\n" + toml({"name": "north", "role": "relay", "address": running.addresses["north"]}),
            )
            assert entry in path.read_text()
            path.write_text(path.read_text().replace(entry, ""))
            running.send_signal(name, signal.SIGHUP)
        for name in (*PARTIES, COORDINATOR_NAME):
            running.wait_until_logged(name, '"changed": "relays"')
        for name in PARTIES:
            running.wait_until_logged("north", f'local/party/{name}", "event": "a member is no longer connected')
        running.send_signal("north", signal.SIGKILL)
        run_job(running)


class Proxied(ForkedDeployment):
    """Its members dial by a proxy, each as a user of its own name."""

    proxy = ""
    passwords: ClassVar = {}

    def write_files(self):
        super().write_files()
        for name in self.passwords:
            word = self.folder / f"{name}.password"
            word.touch(mode=0o600)
            word.write_text(self.passwords[name] + "\n")
            section = {"url": f"http://{name}@{self.proxy}", "password_file": word.name}
            path = self.config_path(name)
            path.write_text(path.read_text() + "\n" + toml({}, {"proxy": section}))


@pytest.mark.slow
@needs_squid
def test_ways_by_a_relay_lead_through_the_proxy_and_are_there_again_after_it_was_gone(tmp_path):
    words = {name: a_password() for name in PARTIES}
    with Squid(f"127.0.0.1:{free_row_of_ports(1)}", words) as squid:
        Proxied.proxy, Proxied.passwords = squid.address, words
        with deployed(Proxied, tmp_path) as running:
            run_job(running)
            squid.stop()
            squid.start()
            run_job(running)
        hub = running.addresses[HUB]
        assert {(name, hub, 200) for name in PARTIES} <= squid.asked()


class Cut(ForkedDeployment):
    """Parties reach coordinator and relay by a firewall that cuts silent connections."""

    cuts = ()

    def write_files(self):
        super().write_files()
        outside = loopback_addresses(["relay", "coordinator"])
        leads = {"relay": self.addresses[HUB], "coordinator": self.addresses[COORDINATOR_NAME]}
        self.cuts = [CutsSilent(outside[name], leads[name]) for name in leads]
        for name in PARTIES:
            text = self.config_path(name).read_text()
            for cut in self.cuts:
                assert cut.leads_to in text
                text = text.replace(cut.leads_to, cut.address)
            self.config_path(name).write_text(text)

    def __exit__(self, *error):
        super().__exit__(*error)
        for cut in self.cuts:
            cut.close()

    def cut_what_is_silent(self, enough=all):
        """Cut what is silent for a second, until all of the firewalls, or any, have cut a connection."""
        before, end_s = [cut.n_cut for cut in self.cuts], time.monotonic() + GENEROUS_S
        for cut in self.cuts:
            cut.silence_s = 1.0
        while not enough(cut.n_cut > n for cut, n in zip(self.cuts, before, strict=True)):
            assert time.monotonic() < end_s
            time.sleep(0.05)
        for cut in self.cuts:
            cut.silence_s = None


@pytest.mark.slow
def test_a_firewall_that_cuts_silent_connections_is_survived_while_idle(tmp_path):
    with deployed(Cut, tmp_path) as running:
        for _ in range(2):
            run_job(running)
            running.cut_what_is_silent()
        run_job(running)


def test_a_firewall_that_cuts_links_amid_a_job_ends_it_with_a_reason_or_not_and_the_next_job_runs(tmp_path):
    """One party stands still for longer than the firewall waits."""
    with deployed(Cut, tmp_path) as running:
        analyst, was_cut = Analyst(running), []

        def stop(event):
            if event.state == "RUNNING" and not was_cut:
                running.send_signal("shop", signal.SIGSTOP)
                running.cut_what_is_silent(enough=any)
                was_cut.append(event)
                running.send_signal("shop", signal.SIGCONT)

        before = jobs_paid(running, PARTIES)
        view = analyst.wait(analyst.submit(pca_job(PARTIES)), on_event=stop)
        assert was_cut
        paid = {name: now - before[name] for name, now in jobs_paid(running, PARTIES).items()}
        assert max(paid.values()) <= 1
        if view.state == "DONE":
            assert set(paid.values()) == {1}
        else:
            assert view.state == "FAILED"
            assert view.reason
        run_job(running)
