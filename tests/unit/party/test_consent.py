import asyncio
import stat

import pytest

from party.consent import ConsentBox, ConsentError

QUESTION = {"job_id": "job-1", "analyst": "ada"}


async def asked(box, job_id="job-1"):
    task = asyncio.create_task(box.ask(job_id, QUESTION))
    async with asyncio.timeout(60):
        while not box.waiting():  # noqa: ASYNC110 - as the owner looks, from another process
            await asyncio.sleep(0.01)
    return task


async def test_the_owner_sees_the_question_and_approves(tmp_path):
    box = ConsentBox(tmp_path)
    task = await asked(box)
    assert ConsentBox(tmp_path).waiting() == [QUESTION]
    assert box.question("job-1") == QUESTION
    ConsentBox(tmp_path).answer("job-1", None)
    assert await task is None
    assert box.waiting() == []
    assert list((tmp_path / "consent").iterdir()) == []


async def test_a_refusal_carries_its_reason(tmp_path):
    box = ConsentBox(tmp_path)
    task = await asked(box)
    box.answer("job-1", "not this year")
    assert await task == "not this year"


async def test_a_question_that_is_called_off_leaves_nothing(tmp_path):
    box = ConsentBox(tmp_path)
    task = await asked(box)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert list((tmp_path / "consent").iterdir()) == []
    with pytest.raises(ConsentError, match="there is no job job-1 that waits for approval"):
        box.answer("job-1", None)


async def test_an_answer_that_was_there_before_the_question_does_not_count(tmp_path):
    box = ConsentBox(tmp_path)
    (tmp_path / "consent").mkdir()
    (tmp_path / "consent" / "job-1.answer").write_text('{"approved": true, "reason": ""}')
    task = await asked(box)
    await asyncio.sleep(0.3)
    assert not task.done()
    box.answer("job-1", None)
    assert await task is None


async def test_files_belong_to_the_owner_only_and_a_new_service_forgets_them(tmp_path):
    box = ConsentBox(tmp_path)
    task = await asked(box)
    (path,) = (tmp_path / "consent").iterdir()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    box.clear()
    assert box.waiting() == []
    task.cancel()


@pytest.mark.parametrize("job_id", ["", "../job", "a/b", ".x"])
def test_an_id_that_would_name_another_file_is_refused(tmp_path, job_id):
    with pytest.raises(ConsentError, match="job id"):
        ConsentBox(tmp_path).answer(job_id, None)
