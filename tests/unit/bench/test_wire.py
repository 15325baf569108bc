import os
import socket

from bench.wire import bytes_by_socket, sent_between


def test_what_left_a_socket_is_counted_of_the_process_that_sent_it():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            before = bytes_by_socket(os.getpid())
            sender.sendall(bytes(12_345))
            read(receiver, 12_345)
            receiver.sendall(bytes(67))
            read(sender, 67)
            after = bytes_by_socket(os.getpid())
            of_sender, of_receiver = (os.readlink(f"/proc/self/fd/{end.fileno()}") for end in (sender, receiver))
    assert (after[of_sender], after[of_receiver]) == (12_345, 67)
    assert sent_between(before, after) == 12_345 + 67


def read(end, n_bytes):
    while n_bytes > 0:
        n_bytes -= len(end.recv(n_bytes))


def test_a_new_connection_counts_in_full_and_a_closed_one_is_missing():
    assert sent_between({"socket:[1]": 100, "socket:[2]": 5}, {"socket:[1]": 130, "socket:[3]": 7}) == 37
