"""The runner over several processes: order, progress, and what happens when a job goes wrong."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from llmvitals.lab.parallel import LabError, cores, play_all
from support import played as lab

JOBS = lab.plan(1)


def test_results_come_in_the_order_of_the_plan_whatever_the_number_of_processes():
    alone = play_all(JOBS, lab.play, processes=1)
    assert [(one.scenario, one.seed) for one in alone] == [(job.scenario, job.seed) for job in JOBS]
    assert play_all(JOBS, lab.play, processes=3) == alone


def test_several_processes_play_and_hear_which_telemetry_is_wanted():
    found = play_all(JOBS, lab.play_in, telemetry=("engine", "gpu"), processes=2)
    assert {one.why for one in found} == {"engine,gpu"}
    assert str(os.getpid()) not in {one.engine for one in found}
    (here,) = play_all(JOBS[:1], lab.play_in, processes=8)
    assert (here.engine, here.why) == (str(os.getpid()), "every level")


@pytest.mark.parametrize("processes", [1, 2])
def test_every_played_job_is_told_once(processes):
    told = []
    play_all(JOBS, lab.play, processes=processes, on_played=lambda one: told.append((one.scenario, one.seed)))
    assert sorted(told) == sorted((job.scenario, job.seed) for job in JOBS)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_job_that_raises_ends_the_run_and_is_named(processes):
    with pytest.raises(LabError, match=r"scenario 'b', seed 1007: could not be played \(ZeroDivisionError: no seats\)"):
        play_all(JOBS, lab.play_and_fail, processes=processes)


def test_a_process_that_dies_ends_the_run_with_advice():
    with pytest.raises(LabError, match=r"ended from outside.*--jobs"):
        play_all(JOBS, lab.play_and_die, processes=2)


def test_an_interrupt_ends_the_processes_without_playing_their_jobs_out(tmp_path, monkeypatch):
    """Also where it reached the parent alone, as from ``kill``; the jobs would last for an hour."""

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setenv(lab.FIRST, str(tmp_path / "first"))
    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        play_all(JOBS[:2], lab.play_for_an_hour_but_one, processes=2, on_played=interrupted)
    assert set(multiprocessing.active_children()) <= before


def test_no_jobs_need_no_process():
    assert play_all((), lab.play) == ()
    assert cores() >= 1
