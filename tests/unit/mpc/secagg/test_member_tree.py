"""The tree of members: what is proven under a root, and that nothing else can be."""

import pytest

from entropy import InsecureTestEntropy
from mpc.secagg.member_tree import MemberTree, depth_of, is_proven, leaf_of
from mpc.secagg.messages import Advertisement
from mpc.transcript import RoundId, digest

ROUND = RoundId("session", 3, 0)
SIZES = (2, 3, 5, 8, 9, 130)


def advertisement(member, label="keys"):
    draw = InsecureTestEntropy(f"{label} of {member}").read
    return Advertisement(ROUND, member, draw(32), draw(32), draw(32), b"", bytes(32), bytes(32), draw(64))


def present_of(n_members):
    return {m: advertisement(m) for m in range(1, n_members + 1) if m % 3}


@pytest.mark.parametrize("n", SIZES)
def test_each_member_is_proven_with_its_keys_or_absent_and_in_no_other_way(n):
    present = present_of(n)
    tree = MemberTree(n, present)
    for member in range(1, n + 1):
        path = tree.path(member)
        assert len(path) == 32 * depth_of(n)
        assert is_proven(tree.root, n, member, present.get(member), path)
        other = None if member in present else advertisement(member)
        assert not is_proven(tree.root, n, member, other, path)
        assert not is_proven(tree.root, n, member, advertisement(member, "other keys"), path)


@pytest.mark.parametrize("n", SIZES)
def test_a_leaf_is_at_no_other_place(n):
    """One key under many leaves: the path of one member proves nothing of another, whatever its number says."""
    present = present_of(n)
    tree = MemberTree(n, present)
    for place in range(2, n + 1):
        assert not is_proven(tree.root, n, place, present[1], tree.path(1))
        assert not is_proven(tree.root, n, place, present[1], tree.path(place))


def test_a_path_that_is_cut_longer_or_changed_proves_nothing():
    tree, ad = MemberTree(9, present_of(9)), present_of(9)[5]
    path = tree.path(5)
    changed = [path[:-32], path + bytes(32), b"", path[:-1] + bytes([path[-1] ^ 1]), bytes([path[0] ^ 1]) + path[1:]]
    for wrong in changed:
        assert not is_proven(tree.root, 9, 5, ad, wrong)


def test_the_root_changes_with_every_field_of_every_member_and_with_who_is_there():
    present = present_of(9)
    roots = {MemberTree(9, present).root, MemberTree(9, {m: a for m, a in present.items() if m != 5}).root}
    roots |= {MemberTree(9, {**present, m: advertisement(m, "other keys")}).root for m in range(1, 10)}
    assert len(roots) == 11


def test_nodes_of_the_tree_are_no_leaves():
    """A node in the place of a leaf, with a path that is shorter by one, is refused: all paths are of one length."""
    tree = MemberTree(9, present_of(9))
    assert not is_proven(tree.root, 9, 1, present_of(9)[1], tree.path(1)[32:])


def test_a_root_with_a_second_leaf_of_a_member_nearer_to_it_proves_the_first_alone():
    """Member 9 of 9 stands at the left end of the right half; its bits but the highest lead to the left end of all."""
    first, second, beside = advertisement(9), advertisement(9, "other keys"), bytes(32)

    def up(node, times):
        return node if not times else up(digest("members", node, beside), times - 1)

    left, right = up(leaf_of(9, second), 2), up(leaf_of(9, first), 3)
    root = digest("members", left, right)
    assert is_proven(root, 9, 9, first, 3 * beside + left)
    assert not is_proven(root, 9, 9, second, 2 * beside + right)
