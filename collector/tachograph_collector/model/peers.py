"""Checkpoints in the memory of peers: which failures leave a copy, and what the restart is then worth.

Every node keeps its own newest snapshot in memory, and the peers that hold a copy of it do too. A failure domain is
what fails at once: a node, a chassis, a rack, a power feed. Numbers or arrays, which broadcast, are accepted; values
that can't be taken raise ``ModelError``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from tachograph_collector.model.check import (
    Floats,
    ModelError,
    at_most,
    fraction,
    not_negative,
    positive,
    sample,
    whole,
)
from tachograph_collector.model.gaps import effective_restart


def ring_holders(num_nodes: int, distance: int, copies: int = 1) -> NDArray[np.int64]:
    """Who holds each node's copies: nodes ``i + distance``, ``i + 2 distance``, … of the ring, shape (nodes, copies).

    Example: ``ring_holders(8, 4)[7, 0]`` is 3.
    """
    _one("num_nodes", whole("num_nodes", num_nodes, 2))
    _one("distance", whole("distance", distance, 1))
    _one("copies", whole("copies", copies, 1))
    holders = (np.arange(num_nodes)[:, np.newaxis] + distance * np.arange(1, copies + 1)) % num_nodes
    own = holders == np.arange(num_nodes)[:, np.newaxis]
    if own.any():
        raise ModelError(
            f"distance is {distance}; expected one whose first {copies} multiples are no multiples of {num_nodes} "
            "(a node would hold its own copy)"
        )
    return holders


def copy_survival(domains: ArrayLike, holders: ArrayLike, node_rates: ArrayLike = 1.0) -> float:
    """The probability that the failure of one domain leaves a copy of every snapshot that it takes along.

    ``domains`` says for each node which domain it is in (one whole number per node), ``holders`` who holds its copies
    (nodes × copies, see ``ring_holders``). A domain's failure is survived when each of its nodes has a holder outside
    of it: one node without makes the snapshot of the whole job useless. Domains fail in proportion to the
    ``node_rates`` of their nodes (all alike unless told). From first principles, counted exactly; assumes one domain
    at a time, and copies that hold the newest snapshot. Two failures within one restart are ``group_survival``.
    Example: 32 nodes in racks of 8, copies at the next node: ``copy_survival(arange(32) // 8, ring_holders(32, 1))``
    is 0; at the next rack: ``copy_survival(arange(32) // 8, ring_holders(32, 8))`` is 1.
    """
    domain_of, held = whole("domains", domains, 0), whole("holders", holders, 0)
    if domain_of.ndim != 1 or domain_of.size == 0:
        raise ModelError(f"domains is an array of shape {domain_of.shape}; expected one domain per node")
    if held.ndim != 2 or held.shape[0] != domain_of.size or held.shape[1] == 0:
        raise ModelError(f"holders is an array of shape {held.shape}; expected {domain_of.size} nodes × their copies")
    if held.max() >= domain_of.size:
        raise ModelError(f"holders is {held.max():g}; expected nodes from 0 to {domain_of.size - 1}")
    rates = np.broadcast_to(not_negative("node_rates", node_rates), domain_of.shape)
    if not rates.any():
        raise ModelError("node_rates is all 0; expected at least one above 0")
    outside = (domain_of[held.astype(np.int64)] != domain_of[:, np.newaxis]).any(axis=1)
    lost = np.isin(domain_of, domain_of[~outside])
    return float(1 - rates[lost].sum() / rates.sum())


def group_survival(num_nodes: ArrayLike, num_failed: ArrayLike, copies: ArrayLike = 1) -> Floats:
    """The probability that ``num_failed`` random nodes, failed at once, leave a copy when groups hold each other's.

    The nodes form groups of ``m = copies + 1``, each holding the snapshots of all its members; all is lost when a
    whole group is. The share of sets of k nodes without a whole group, ``[x^k] ((1 + x)^m - x^m)^(N/m) / C(N, k)``,
    summed from positive terms only. Wang et al. (Gemini, 2023) place copies so. Assumes that
    any k nodes are as likely as any others: independent failures, not those of a rack. ``num_nodes`` must be a
    multiple of m. Example: ``group_survival(16, 2)`` is 0.9333: one pair of the 15 possible partners is fatal.
    """
    nodes, failed, copies = (
        whole("num_nodes", num_nodes, 2),
        whole("num_failed", num_failed, 0),
        whole("copies", copies, 1),
    )
    nodes, failed, copies = np.broadcast_arrays(nodes, failed, copies)
    at_most("num_failed", failed, "num_nodes", nodes)
    size = copies + 1
    odd = nodes % size != 0
    if np.any(odd):
        raise ModelError(
            f"num_nodes is {nodes[odd][0]:g}; expected a multiple of {size[odd][0]:g}, the size of a group"
        )
    return np.asarray(np.vectorize(_no_whole_group, otypes=[np.float64])(nodes, failed, size))


def _no_whole_group(num_nodes: float, num_failed: float, size: float) -> float:
    if num_failed in (0, num_nodes):
        return 1.0 if num_failed == 0 else 0.0
    # Let each node fail with probability k/N, drop the groups that fail whole, and condition on k failures: binomial
    # numbers of any size stay in range so, and nothing is subtracted.
    rate, longest = num_failed / num_nodes, int(num_failed) + 1
    group = binom.pmf(np.arange(size), size, rate)
    together, left = np.ones(1), int(num_nodes // size)
    while left:
        if left % 2:
            together = np.convolve(together, group)[:longest]
        group = np.convolve(group, group)[:longest]
        left //= 2
    if together.size < longest:
        return 0.0
    return float(min(together[-1] / binom.pmf(num_failed, num_nodes, rate), 1.0))


def served_share(failure_shares: ArrayLike, survival: ArrayLike) -> float:
    """The share of all failures that leave a peer copy, from each kind's share of the failures and its survival.

    ``failure_shares`` and ``survival`` are rows, one number per kind (node, rack, storage-wide bug …); the shares are
    weights and needn't sum to 1. Example: of 100 failures 90 take a node, 7 a rack, 3 the whole job:
    ``served_share([90, 7, 3], [1, 0, 0])`` is 0.90.
    """
    shares, survival = sample("failure_shares", failure_shares), fraction("survival", survival)
    if survival.shape != shares.shape:
        raise ModelError(f"survival has shape {survival.shape}; expected one number for each of {shares.size} kinds")
    if not shares.any():
        raise ModelError("failure_shares is all 0; expected at least one above 0")
    return float(shares @ survival / shares.sum())


def peer_restart(peer_share: ArrayLike, from_peer: ArrayLike, from_storage: ArrayLike, mtbf: ArrayLike) -> Floats:
    """The restart to put into the memoryless formulas when a share of the failures reloads from a peer.

    ``-M ln(p exp(-R_peer/M) + (1 - p) exp(-R_storage/M))``, as ``effective_restart``. It holds where storage has the
    same snapshot, only slower to load. Where storage is behind, the further loss counts too: see
    ``two_level_goodput`` with ``local_share = p``. Example: ``peer_restart(0.95, 5.6, 7.8, 720)`` is 5.71.
    """
    share, mtbf = fraction("peer_share", peer_share), positive("mtbf", mtbf)
    fast, slow = not_negative("from_peer", from_peer), not_negative("from_storage", from_storage)

    def one(share: float, fast: float, slow: float, mtbf: float) -> float:
        return float(effective_restart([fast, slow], mtbf, [share, 1 - share]))

    return np.asarray(np.vectorize(one, otypes=[np.float64])(share, fast, slow, mtbf))


def _one(name: str, value: Floats) -> None:
    if value.ndim:
        raise ModelError(f"{name} is an array of shape {value.shape}; expected one number")
