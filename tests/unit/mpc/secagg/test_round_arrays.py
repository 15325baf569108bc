import numpy as np
import pytest
from masked_sums import OpenRound, make_config

from mpc.errors import LocalFaultError, OutOfRangeError
from mpc.secagg.config import Topology
from mpc.secagg.messages import (
    Advertisement,
    MaskedInput,
    MemberList,
    SealedShares,
    ShareDelivery,
    SignedSurvivors,
    SurvivorList,
    SurvivorSignature,
    UnmaskingShares,
)
from mpc.secagg.round_arrays import RoundArrays


@pytest.fixture(params=[(), (3, 4, 5)], ids=["plain", "with surplus seeds"])
def ended(request):
    """A whole round in which member 2 drops_out after sharing and member 5 never comes."""
    round_ = OpenRound(make_config(surplus_levels=request.param))
    round_.advertise(dropped_out={5})
    round_.share()
    round_.mask(dropped_out={2})
    round_.sign()
    round_.unmask()
    return round_


def test_every_message_comes_back_as_it_was_and_has_the_shape_that_was_promised(ended):
    arrays = RoundArrays(ended.config)
    there_and_back = [
        (Advertisement, ended.advertisements),
        (SealedShares, ended.sealed),
        (MaskedInput, ended.masked),
        (SurvivorSignature, ended.signatures),
        (UnmaskingShares, ended.unmasking),
        (ShareDelivery, ended.deliveries),
        (MemberList, {1: ended.member_list}),
        (SurvivorList, {1: ended.survivors}),
        (SignedSurvivors, {1: ended.signed}),
    ]
    for kind, messages in there_and_back:
        for member, message in messages.items():
            array = arrays.write(message)
            assert (array.dtype, array.shape) == (np.uint8, arrays.shape(kind))
            assert arrays.read(kind, member, array) == message


@pytest.mark.parametrize(("column", "value"), [(0, 2), (7, 1)])
def test_a_row_that_is_neither_there_nor_absent_is_refused(ended, column, value):
    arrays = RoundArrays(ended.config)
    array = arrays.write(ended.member_list).copy()
    array[4, column] = value  # member 5 is absent
    with pytest.raises(OutOfRangeError, match="neither as present nor as absent"):
        arrays.read(MemberList, 1, array)


def test_a_ring_has_no_messages_of_fixed_shape():
    config = make_config(130, topology=Topology.ring(130, 2, 6))
    with pytest.raises(LocalFaultError, match="complete graph"):
        RoundArrays(config)
