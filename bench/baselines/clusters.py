"""Clustering by a trusted curator who holds all columns. FOR COMPARISON ONLY: no service runs it."""

from collections.abc import Sequence

import numpy as np

from analyses.clustering.local_clustering import Floats, LocalClustering
from analyses.clustering.weighted_clustering import Choices
from analyses.job.job import PrivacyTarget
from analyses.job.schema import BlockSchema, Table
from dp.cost.calibrate import least_noise
from dp.cost.composition import composed_epsilon
from dp.mechanism.skellam_parameters import SKELLAM_LADDER
from entropy import Entropy


def central_clustering(tables: Sequence[Table], k: int, p: int, target: PrivacyTarget, entropy: Entropy) -> Floats:
    """Return k centres by the local mechanism of the analysis, the tree, applied to the joint table: central privacy.

    Args:
        tables: of all owners.
        k: how many clusters.
        p: 2 for means, 1 for medians.
        target: the privacy target of the centres.
        entropy: of noise and random choices.

    Returns:
        shape (k, columns), in the units of the columns.
    """
    columns = tuple(
        column.model_copy(update={"name": f"{table.schema.party}.{column.name}"})
        for table in tables
        for column in table.schema.columns
    )
    block = BlockSchema(party="everybody", columns=columns)

    def with_noise(noise: int) -> LocalClustering:
        return LocalClustering(block=block, k=k, p=p, method="tree", noise=noise)

    def spends(noise: int) -> float:
        return composed_epsilon(
            with_noise(noise).mechanism.events(target.view), target.delta, near=target.epsilon
        ).epsilon

    curator = with_noise(least_noise(spends, SKELLAM_LADDER, epsilon=target.epsilon, delta=target.delta))
    rows, _ = curator.quantise(np.hstack([table.values for table in tables]))
    choices = Choices(entropy)
    centres = curator.release(rows, curator.mechanism.draw(entropy), choices)
    return curator.in_original_units(centres.astype(np.float64))
