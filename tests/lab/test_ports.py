from __future__ import annotations

import socket
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.lab.errors import LabError
from foresail.lab.network import bridge_name, cni_config, gateway, node_network
from foresail.lab.ports import FIRST_PORT, LAST_PORT, free_network, free_ports


def test_ports_in_use_are_passed_over():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LabError, match="only 0 free ports of the 1 needed"):
            free_ports(1, [port])


def test_chosen_ports_differ_and_stay_out_of_the_range_of_outgoing_connections():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(FIRST_PORT <= port < LAST_PORT for port in ports)


@given(
    st.lists(st.sampled_from([f"10.{n}.0.0/16" for n in range(200, 249)] + ["default", "192.0.2.0/24", "10.220.7.9"]))
)
def test_a_labs_network_overlaps_nothing_that_is_taken(taken):
    network = free_network(taken)
    assert not any(network.overlaps(IPv4Network(other)) for other in taken if other != "default")


def test_a_machine_that_routes_all_of_ten_has_no_room():
    with pytest.raises(LabError, match="is in use"):
        free_network(["10.0.0.0/8"])


def test_every_node_has_a_subnet_and_a_bridge_that_linux_accepts():
    assert [str(node_network("10.201.0.0/16", node)) for node in (0, 1, 199)] == [
        "10.201.0.0/24",
        "10.201.1.0/24",
        "10.201.199.0/24",
    ]
    assert str(gateway("10.201.0.0/16", 2)) == "10.201.2.1/24"
    assert len(bridge_name("12345678", 199)) <= 15


def test_pods_have_routes_to_the_labs_other_nodes_and_nowhere_else():
    config = cni_config("br", "10.201.0.0/16", 1, 3, Path("/data"))
    ipam = config["plugins"][0]["ipam"]
    assert ipam["routes"] == [{"dst": "10.201.0.0/24"}, {"dst": "10.201.2.0/24"}]
    assert (config["plugins"][0]["ipMasq"], ipam["ranges"]) == (False, [[{"subnet": "10.201.1.0/24"}]])
