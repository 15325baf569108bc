from entropy import InsecureTestEntropy, SystemEntropy


def test_the_systems_entropy_is_secure_and_never_repeats():
    source = SystemEntropy()
    assert source.is_secure
    assert source.read(32) != source.read(32)
    assert len(source.read(7)) == 7


def test_test_entropy_is_marked_insecure_and_follows_from_its_seed():
    assert not InsecureTestEntropy("a").is_secure
    assert InsecureTestEntropy("a").read(40) == InsecureTestEntropy("a").read(40)
    assert InsecureTestEntropy("a").read(40) != InsecureTestEntropy("b").read(40)


def test_successive_reads_of_test_entropy_differ():
    source = InsecureTestEntropy("a")
    assert source.read(16) != source.read(16)
