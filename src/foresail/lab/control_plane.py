"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, all on loopback."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from foresail.kube.api.errors import ClusterError
from foresail.kube.api.kinds import SERVICE_ACCOUNT
from foresail.lab import components
from foresail.lab.certificates import CONTROL_PLANE
from foresail.lab.errors import LabError
from foresail.lab.ports import free_ports
from foresail.lab.site import Site

PORTS = ("etcd", "etcd-peers", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
SERVICE_RANGE = "198.51.100.0/24"
"""Kept for documentation by RFC 5737: nothing outside answers, and a lab has no kube-proxy that would."""


def start(site: Site) -> None:
    """Bring the control plane up and wait until the API server is ready."""
    if not site.state.ports:
        site.state.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        site.record()
    site.certificates.make_authority()
    for identity in CONTROL_PLANE:
        site.certificates.make(identity)
    site.kubeconfig("admin")
    site.start("etcd", _etcd(site))
    site.start("kube-apiserver", _apiserver(site))
    site.wait("the API server was ready", lambda: _ready(site), "etcd", "kube-apiserver", within_s=120)
    if site.settings.controllers:
        site.start("kube-controller-manager", _controller_manager(site))
    if site.settings.scheduler:
        site.start("kube-scheduler", _scheduler(site))
    if site.settings.controllers:
        site.wait("the default service account was there", lambda: _has_accounts(site), "kube-controller-manager")


def _ready(site: Site) -> bool:
    with suppress(LabError, ClusterError), site.api() as api:
        return api.text("/readyz") == "ok"
    return False


def _has_accounts(site: Site) -> bool:
    """Pods are refused in a namespace until the controller manager has made its default service account."""
    with suppress(LabError, ClusterError), site.api() as api:
        return bool(api.get(SERVICE_ACCOUNT.named("default", "default")))
    return False


def _etcd(site: Site) -> list[str | Path]:
    ports, certificates = site.state.ports, site.certificates
    clients, peers = f"https://127.0.0.1:{ports['etcd']}", f"http://127.0.0.1:{ports['etcd-peers']}"
    return [
        components.need("etcd"),
        f"--data-dir={site.folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        # Whoever can write to etcd owns the cluster: other users of the machine need the lab's key too.
        "--client-cert-auth",
        f"--trusted-ca-file={certificates.authority}",
        f"--cert-file={certificates.certificate('etcd')}",
        f"--key-file={certificates.key('etcd')}",
        "--quota-backend-bytes=4294967296",
        "--auto-compaction-retention=5m",
        # A busy disk must not cost the only member its leadership.
        "--heartbeat-interval=500",
        "--election-timeout=5000",
        "--logger=zap",
        "--log-level=warn",
    ]


def _apiserver(site: Site) -> list[str | Path]:
    ports, certificates = site.state.ports, site.certificates
    return [
        components.need("kube-apiserver"),
        "--bind-address=127.0.0.1",
        # The advertised address may not be loopback and is never used: no endpoints are written.
        "--advertise-address=198.51.100.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={ports['kube-apiserver']}",
        f"--etcd-servers=https://127.0.0.1:{ports['etcd']}",
        f"--etcd-cafile={certificates.authority}",
        f"--etcd-certfile={certificates.certificate('etcd')}",
        f"--etcd-keyfile={certificates.key('etcd')}",
        f"--cert-dir={certificates.folder}",
        f"--tls-cert-file={certificates.certificate('kube-apiserver')}",
        f"--tls-private-key-file={certificates.key('kube-apiserver')}",
        f"--client-ca-file={certificates.authority}",
        # Nobody holds a certificate of this name; without the flags the other components complain a thousand times.
        f"--requestheader-client-ca-file={certificates.authority}",
        "--requestheader-allowed-names=foresail-front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--kubelet-certificate-authority={certificates.authority}",
        f"--kubelet-client-certificate={certificates.certificate('kubelet-client')}",
        f"--kubelet-client-key={certificates.key('kubelet-client')}",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.account_key}",
        f"--service-account-signing-key-file={certificates.account_key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--allow-privileged=true",
        "--profiling=false",
        # With it, an API server on etcd 3.4 refuses watches from version 0, which are KWOK's: it would learn of pods
        # from a list now and then, half a minute late.
        "--feature-gates=WatchList=false",
        *site.settings.apiserver_flags,
    ]


def _controller_manager(site: Site) -> list[str | Path]:
    certificates = site.certificates
    return [
        components.need("kube-controller-manager"),
        *_as_client(site, "kube-controller-manager"),
        f"--root-ca-file={certificates.authority}",
        f"--service-account-private-key-file={certificates.account_key}",
        f"--cluster-signing-cert-file={certificates.authority}",
        f"--cluster-signing-key-file={certificates.authority_key}",
        "--use-service-account-credentials=true",
        # A busy machine is no lost node; the default is 50 s.
        "--node-monitor-grace-period=120s",
        # Thousands of fake nodes come at once; 20 requests a second would make them wait.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def _scheduler(site: Site) -> list[str | Path]:
    settings = site.settings
    flags = list(settings.scheduler_flags)
    if settings.scheduler_config:
        config = site.folder / "kube-scheduler.yaml"
        config.write_text(settings.scheduler_config, encoding="utf-8")
        flags.append(f"--config={config}")
    return [components.need("kube-scheduler"), *_as_client(site, "kube-scheduler"), *flags]


def _as_client(site: Site, component: str) -> list[str]:
    kubeconfig = site.kubeconfig(component)
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.state.ports[component]}",
        f"--cert-dir={site.folder / component}",
        # One of each: an election would only delay the start.
        "--leader-elect=false",
    ]
