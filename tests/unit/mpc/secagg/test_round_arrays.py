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
    """A whole round in which member 2 vanishes after sharing and member 5 never comes."""
    round_ = OpenRound(make_config(surplus_levels=request.param))
    round_.advertise(gone={5})
    round_.share()
    round_.mask(gone={2})
    round_.sign()
    round_.unmask()
    return round_


def test_every_message_comes_back_as_it_was_and_has_the_shape_that_was_promised(ended):
    arrays = RoundArrays(ended.config)
    there_and_back = [
        (Advertisement, arrays.of_advertisement, arrays.advertisement, ended.advertisements),
        (SealedShares, arrays.of_sealed, arrays.sealed, ended.sealed),
        (MaskedInput, arrays.of_masked, arrays.masked, ended.masked),
        (SurvivorSignature, arrays.of_signature, arrays.signature, ended.signatures),
        (UnmaskingShares, arrays.of_unmasking, arrays.unmasking, ended.unmasking),
        (ShareDelivery, arrays.of_delivery, arrays.delivery, ended.deliveries),
    ]
    for kind, write, read, messages in there_and_back:
        for member, message in messages.items():
            array = write(message)
            assert (array.dtype, array.shape) == (np.uint8, arrays.shape(kind))
            assert read(member, array) == message
    for kind, write, read, message in [
        (MemberList, arrays.of_members, arrays.members, ended.member_list),
        (SurvivorList, arrays.of_survivors, arrays.survivors, ended.survivors),
        (SignedSurvivors, arrays.of_signatures, arrays.signatures, ended.signed),
    ]:
        array = write(message)
        assert (array.dtype, array.shape) == (np.uint8, arrays.shape(kind))
        assert read(array) == message


@pytest.mark.parametrize(("column", "value"), [(0, 2), (7, 1)])
def test_a_row_that_is_neither_there_nor_absent_is_refused(ended, column, value):
    arrays = RoundArrays(ended.config)
    array = arrays.of_members(ended.member_list).copy()
    array[4, column] = value  # member 5 is absent
    with pytest.raises(OutOfRangeError, match="neither there nor absent"):
        arrays.members(array)


def test_a_ring_has_no_messages_of_fixed_shape():
    config = make_config(130, topology=Topology.ring(130, 2, 6))
    with pytest.raises(LocalFaultError, match="complete graph"):
        RoundArrays(config)
