"""HyperPod's managed tier checkpointing as a writer: cluster memory first, S3 every n-th save.

The package `amzn-sagemaker-checkpointing` (https://pypi.org/project/amzn-sagemaker-checkpointing/) is in the image and
needs a HyperPod cluster with `TieredStorageConfig{Mode: Enable}` (`hyperpod.tiered_storage`), whose memory service it
asks at port 9200 of `ai-toolkit-gossip-headless.aws-hyperpod`. Nothing in it prunes S3: a lifecycle rule does.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from typing import Any

from hyperpod_ray_training.errors import InputError
from hyperpod_ray_training.folder import POINTER, RunFolder

S3_BASE = "TIERED_S3_BASE"
S3_EVERY = "TIERED_S3_EVERY_SAVES"


def _module(part: str) -> Any:
    try:
        return importlib.import_module(f"amzn_sagemaker_checkpointing.{part}")
    except ImportError as error:
        raise InputError(
            f"writer tiered: {error}",
            expected=(
                "the package amzn-sagemaker-checkpointing with s3torchconnector and tenacity, which the "
                "project's image has"
            ),
            fix="install hyperpod_ray/image/requirements-tiered.txt in an image of your own, or use writer auto",
        ) from error


class Tier:
    """Makes the tier's DCP writers and readers for one run.

    Args:
        namespace: The run's name; the tier keeps one namespace per training job.
        world: Number of ranks.

    The environment gives `TIERED_S3_BASE` (s3://bucket/prefix, required: memory alone does not outlive the cluster) and
    `TIERED_S3_EVERY_SAVES` (default 5: every fifth save, and every save on a drain notice, also goes to S3).
    """

    def __init__(self, *, namespace: str, world: int) -> None:
        self.config_class = _module("config.sagemaker_checkpoint_config").SageMakerCheckpointConfig
        self.filesystem = _module("checkpointing.filesystem.filesystem")
        self.namespace = re.sub(r"[^A-Za-z0-9_-]", "-", namespace)
        self.world = world
        self.base = os.environ.get(S3_BASE, "")
        if not self.base.startswith("s3://"):
            raise InputError(
                f"{S3_BASE}: {self.base!r}",
                expected="s3://bucket/prefix: without S3 a lost cluster loses all",
                fix="set the variable",
            )
        every = os.environ.get(S3_EVERY, "5")
        if not every.isdigit() or int(every) < 1:
            raise InputError(f"{S3_EVERY}: {every!r}", expected="a whole number from 1", fix="correct the variable")
        self.every = int(every)
        self.saves = 0

    def _config(self, *, world: int, to_s3: bool) -> Any:
        return self.config_class(
            namespace=self.namespace, world_size=world, s3_tier_base_path=self.base, save_to_s3=to_s3
        )

    def writer(self, *, step: int, durable: bool) -> Any:
        """Writer of one save; `durable` forces S3."""
        self.saves += 1
        to_s3 = durable or self.saves % self.every == 0
        return self.filesystem.SageMakerTieredStorageWriter(
            checkpoint_config=self._config(world=self.world, to_s3=to_s3), step=step
        )

    def reader(self, folder: RunFolder, name: str) -> Any:
        """Reader of the checkpoint a pointer names; the tier falls back from memory to S3 itself."""
        pointer = json.loads(folder.fs.cat_file(folder.at(name, POINTER)))
        config = self._config(world=int(pointer["world"]), to_s3=False)
        return self.filesystem.SageMakerTieredStorageReader(checkpoint_config=config, step=int(pointer["step"]))

    def point(self, folder: RunFolder, name: str, *, step: int) -> None:
        """Write the pointer, once every rank's part is in the tier: from here on the checkpoint counts."""
        folder.note(name, POINTER, {"namespace": self.namespace, "step": step, "world": self.world})
