"""The controllers that follow the embedded AWS: nodes, file systems, volumes, and the end of the EKS cluster itself."""

from __future__ import annotations

import asyncio
import logging

from hyperpod_ray_rules import names
from hyperpod_ray_sandbox.kubernetes.api import Api
from hyperpod_ray_sandbox.kubernetes.auth import control
from hyperpod_ray_sandbox.kubernetes.controllers.addons import Addons
from hyperpod_ray_sandbox.kubernetes.controllers.aws import Aws, AwsError
from hyperpod_ray_sandbox.kubernetes.controllers.ebs import EbsProvisioner
from hyperpod_ray_sandbox.kubernetes.controllers.fsx import FsxProvisioner
from hyperpod_ray_sandbox.kubernetes.controllers.governance import Governance
from hyperpod_ray_sandbox.kubernetes.controllers.karpenter import Karpenter
from hyperpod_ray_sandbox.kubernetes.controllers.nodes import Nodes
from hyperpod_ray_sandbox.kubernetes.controllers.settings import Settings

log = logging.getLogger(__name__)

_LONGEST_PAUSE = 1.0


class Cloud:
    """Asks the embedded AWS every `poll_seconds` while something changes, and at least once a second.

    This API stands for one EKS cluster: the one named in the settings, or the only one there is. When that cluster is
    deleted (or another of its name takes its place), every object goes with it, as a control plane takes its etcd
    along.
    """

    def __init__(self, api: Api, settings: Settings, nodes: Nodes) -> None:
        self.api = api
        self.settings = settings
        self.nodes = nodes
        client = control(settings.aws_endpoint, settings.region)
        self.provisioners = (FsxProvisioner(api, client), EbsProvisioner(api, client))
        self.karpenter = Karpenter(api)
        self.addons = Addons(api)
        self.governance = Governance(api)
        self.aws = Aws(settings.aws_endpoint, settings.region)

    async def run(self) -> None:
        """Poll until cancelled."""
        store, pause = self.api.store, self.settings.poll_seconds
        while True:
            before = store.version
            try:
                await self._poll()
            except AwsError as error:
                # the embedded AWS starts after this server and stops before it
                log.info("embedded AWS: %s", error)
            except Exception:
                log.exception("following the embedded AWS failed")
            await asyncio.sleep(pause)
            quiet = store.version == before
            pause = min(max(_LONGEST_PAUSE, pause), 2 * pause) if quiet else self.settings.poll_seconds

    async def _poll(self) -> None:
        await self.aws.look()
        clusters = await self.aws.pages("eks", "list_clusters", "clusters")
        name = self.settings.eks_cluster or (clusters[0] if len(clusters) == 1 else "")
        arn = born = ""
        if name in clusters:
            cluster = (await self.aws.call("eks", "describe_cluster", name=name))["cluster"]
            arn, born = str(cluster["arn"]), str(cluster["createdAt"])
        noted = self.api.store.note("eks")
        mark = f"{arn}@{born}" if arn else ""
        # where clusters are there and none of them is surely this API's, nothing is forgotten
        if noted and mark != noted and not (not mark and clusters):
            self.api.reset()
        if mark or not clusters:
            self.api.store.note("eks", mark)
        if not arn:
            return
        clusters = await self.nodes.poll(self.aws, arn)
        self.karpenter.follow(clusters)
        present = await self.addons.poll(self.aws, name, mark=mark)
        # quotas need the add-on, so that nobody asks for them without it
        await self.governance.poll(self.aws, clusters if names.GOVERNANCE_ADDON in present else ())
        for provisioner in self.provisioners:
            await provisioner.poll(self.aws, name)
