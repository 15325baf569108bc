"""No device answers questions of so small an epsilon that very many of them would cost next to nothing."""

from dataclasses import replace

import pytest
from batches import asked_batch, batch_policy
from devices import device_in, question, round_of
from factor_children import factor_device_in, invitation_to
from surveys import asked, survey_device

from device.config import SumPolicy
from device.questions.batch_policy import BatchOutOfPolicyError
from device.refusing import SitsOutError
from mpc.secagg.errors import PolicyRefusalError

TINY = {"epsilon": 1e-9, "delta": 1e-6}


def test_a_sum_of_a_tiny_epsilon_is_refused_by_default(tmp_path):
    with device_in(tmp_path) as device:
        for epsilon in (1e-9, 0.99e-3):
            params = question(privacy={**TINY, "epsilon": epsilon})
            with pytest.raises(PolicyRefusalError, match=r"at least 0\.001 here"):
                device._admit(params, round_of(params))
        params = question(privacy={**TINY, "epsilon": 1e-3})
        device._admit(params, round_of(params))
        with pytest.raises(PolicyRefusalError, match=r"at least 0\.5 here"):
            replace(device, least_epsilon=0.5)._admit(params, round_of(params))


@pytest.mark.parametrize("form", ["statistics", "sgd"])
def test_a_factorization_of_a_tiny_epsilon_is_refused_by_default(tmp_path, form):
    with factor_device_in(tmp_path) as device:
        answered = device.factors.entered(invitation_to(0, form=form, privacy={**TINY, "epsilon": 0.9e-3}))
        with pytest.raises(PolicyRefusalError, match=r"at least 0\.001 here"):
            answered.admit()
        assert device.budget.standing()["reserved_jobs"] == 0


def test_batches_and_surveys_have_the_floor_too(tmp_path):
    with pytest.raises(BatchOutOfPolicyError, match=r"at least 0\.001 here"):
        batch_policy().check(asked_batch(privacy={**TINY, "epsilon": 0.5e-3}))
    batch_policy().check(asked_batch(privacy={**TINY, "epsilon": 1e-3}))
    with survey_device(tmp_path, least_epsilon=2.0) as device, pytest.raises(SitsOutError, match="at least 2 here"):
        device.answer_once(asked())


def test_the_floor_of_the_configuration_is_below_its_limits():
    assert SumPolicy().least_epsilon == 1e-3
    with pytest.raises(ValueError, match="least_epsilon: must not be larger"):
        SumPolicy(largest_epsilon=0.1, least_epsilon=0.2)
