from __future__ import annotations

from ixchat.serve.threads import MAX_MESSAGES, Thread, Threads


def said(thread: Thread) -> list[str]:
    return [str(message.content) for message in thread.messages]


def test_a_thread_goes_on_where_it_was() -> None:
    threads = Threads(10)
    thread = threads.open("lite", "visit-0001")
    thread.answer(thread.say("Bonjour"), "Bonjour !")
    threads.open("lite", "visit-0001").say("Oui")
    assert said(thread) == ["Bonjour", "Bonjour !", "Oui"]


def test_the_same_id_of_two_tenants_is_two_threads() -> None:
    threads = Threads(10)
    threads.open("lite", "visit-0001").say("Bonjour")
    assert said(threads.open("advanced", "visit-0001")) == []


def test_an_answer_that_comes_after_the_next_message_is_not_kept() -> None:
    thread = Thread()
    first = thread.say("Bonjour")
    second = thread.say("Vous êtes là ?")
    thread.answer(first, "late")
    thread.answer(second, "Oui")
    assert said(thread) == ["Bonjour", "Vous êtes là ?", "Oui"]


def test_the_longest_untouched_thread_is_forgotten() -> None:
    threads = Threads(2)
    for thread_id in ("one", "two"):
        threads.open("lite", thread_id).say("Bonjour")
    threads.open("lite", "one")
    threads.open("lite", "three")
    assert said(threads.open("lite", "one")) == ["Bonjour"]
    assert said(threads.open("lite", "two")) == []


def test_a_thread_keeps_its_latest_messages() -> None:
    thread = Thread()
    for number in range(MAX_MESSAGES + 5):
        thread.say(str(number))
    assert len(thread.messages) == MAX_MESSAGES
    assert said(thread)[-1] == str(MAX_MESSAGES + 4)
