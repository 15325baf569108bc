import pickle

import numpy as np
import pytest
from matchings import ids_of, network_of, secrets_of

from mpc.errors import LocalFaultError
from mpc.matching.zero_sharing import ZeroSharing

IDS = ids_of(range(4))


def sharings(owners):
    network = network_of(max(owners))
    return {owner: ZeroSharing(owner, owners, secrets_of(network.session(owner), owners)) for owner in owners}


@pytest.mark.parametrize("owners", [(1, 2), (1, 2, 3), (2, 3, 5, 7)])
def test_values_of_all_owners_add_up_to_zero_and_those_of_fewer_do_not(owners):
    values = [sharing.values(IDS) for sharing in sharings(owners).values()]
    assert not np.bitwise_xor.reduce(values).any()
    for left_out in range(len(owners)):
        rest = np.bitwise_xor.reduce([v for i, v in enumerate(values) if i != left_out])
        assert rest.any(axis=1).all()


def test_every_id_has_values_of_its_own_wherever_it_stands():
    sharing = sharings((1, 2, 3))[1]
    values = sharing.values(IDS)
    assert len(np.unique(values, axis=0)) == len(IDS)
    assert np.array_equal(sharing.values(IDS[::-1]), values[::-1])


def test_a_single_owner_has_zeros():
    assert not ZeroSharing(2, (2,), {}).values(IDS).any()


def test_secrets_serve_once():
    secrets = secrets_of(network_of(3).session(1), (1, 2, 3))
    ZeroSharing(1, (1, 2, 3), secrets)
    with pytest.raises(LocalFaultError, match="one match"):
        ZeroSharing(1, (1, 2, 3), secrets)


def test_it_shows_nothing():
    sharing = sharings((1, 2))[1]
    assert repr(sharing) == "ZeroSharing()"
    with pytest.raises(TypeError):
        pickle.dumps(sharing)
