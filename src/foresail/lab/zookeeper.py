"""ZooKeeper, of Debian's package, on loopback: one server for one lab."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from foresail.atomic import replacing
from foresail.lab import components
from foresail.lab.packages import ZOOKEEPER_JAR
from foresail.lab.ports import free_ports
from foresail.lab.site import Site

ZOOKEEPER = "zookeeper"
"""The component's name."""
JARS = (ZOOKEEPER_JAR, ZOOKEEPER_JAR.with_name("slf4j-simple.jar"))
"""The server, and what prints its log."""
_ANSWER_S = 1.0


def start(site: Site) -> None:
    """Bring the server up and wait until it answers."""
    if ZOOKEEPER not in site.state.ports:
        site.state.ports[ZOOKEEPER] = free_ports(1)[0]
        site.record()
    folder = site.folder / ZOOKEEPER
    folder.mkdir(exist_ok=True)
    settings = folder / "zoo.cfg"
    with replacing(settings) as part:
        part.write_text(config(site.state.ports[ZOOKEEPER], folder / "data"), encoding="utf-8")
    command: list[str | Path] = [
        components.need("java"),
        # A small heap, and no time lost on code that runs once.
        *("-Xmx192m", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *("-cp", ":".join(map(str, JARS)), "org.apache.zookeeper.server.quorum.QuorumPeerMain", settings),
    ]
    site.start(ZOOKEEPER, command)
    site.wait("ZooKeeper answered", lambda: answers(site.state.ports[ZOOKEEPER]), ZOOKEEPER)


def config(port: int, data: Path) -> str:
    """Its zoo.cfg."""
    settings = {
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "dataDir": data,
        # Half a second: a session that is lost is noticed after two such, if a client asks for no more.
        "tickTime": 500,
        "maxSessionTimeout": 60_000,
        # All clients of a lab come from one address.
        "maxClientCnxns": 0,
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def answers(port: int) -> bool:
    """Whether a server is there and well, in its own words."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), _ANSWER_S) as asking:
        asking.settimeout(_ANSWER_S)
        asking.sendall(b"ruok")
        return asking.recv(16) == b"imok"
    return False
