from demo.job import free_files


def test_a_second_run_leaves_the_files_of_the_first(tmp_path):
    first = free_files(tmp_path, "pca")
    assert first == {"numbers": tmp_path / "pca.json", "plot": tmp_path / "pca.png"}
    first["numbers"].touch()
    second = free_files(tmp_path, "pca")
    assert second == {"numbers": tmp_path / "pca-2.json", "plot": tmp_path / "pca-2.png"}
    second["plot"].touch()
    assert free_files(tmp_path, "pca")["plot"] == tmp_path / "pca-3.png"
