"""The expected error of a release as a function of the variances of the levels, and its gradient.

Nodes of equal depth with identical subtrees form one *class*, since their estimates from below have
equal variances. Classes are numbered with children first and the root last. The edges of class i
are ``first[i]`` to ``first[i + 1] - 1``. Edge e leads to the class ``child[e]`` of ``times[e]``
children. The errors below a node are a linear function of its own error. With P_i the variance of
its final value,

    sum of weight_j P_j over the subtree of i = alpha_i + beta_i P_i,

so that one upward pass computes them all.
"""

import numpy as np

from gmtree._kernels._jit import kernel


@kernel
def expected_error(first, child, times, level, exact, weight, s, q, t, r, alpha, beta):
    """alpha + beta q at the root.

    ``t = sum q_c``, ``r = sum beta_c q_c^2``, ``q = s t / (s + t)``,
    ``alpha = sum (alpha_c + beta_c q_c) - r / t``, ``beta = weight + r / t^2``.
    """
    for i in range(first.size - 1):
        variance = 0.0 if exact[i] else s[level[i]]
        t[i] = 0.0
        r[i] = 0.0
        alpha[i] = 0.0
        beta[i] = weight[i]
        if first[i] == first[i + 1]:
            q[i] = variance
            continue
        for e in range(first[i], first[i + 1]):
            c = child[e]
            t[i] += times[e] * q[c]
            r[i] += times[e] * beta[c] * q[c] * q[c]
            alpha[i] += times[e] * (alpha[c] + beta[c] * q[c])
        if t[i] > 0.0:
            alpha[i] -= r[i] / t[i]
            beta[i] += r[i] / (t[i] * t[i])
        if variance == np.inf:
            q[i] = t[i]
        else:
            q[i] = variance * (t[i] / (variance + t[i])) if variance > 0.0 else 0.0
    root = first.size - 2
    return alpha[root] + beta[root] * q[root]


@kernel
def error_gradient(
    first, child, times, level, exact, s, q, t, r, beta, d_q, d_alpha, d_beta, out
):  # fmt: skip
    """Derivatives of `expected_error` by the variance of each level, in reverse mode.

    `d_q`, `d_alpha`, `d_beta` and `out` hold zeros on entry.
    """
    root = first.size - 2
    d_alpha[root] = 1.0
    d_beta[root] = q[root]
    d_q[root] = beta[root]
    for i in range(root, -1, -1):
        variance = 0.0 if exact[i] else s[level[i]]
        if first[i] == first[i + 1]:
            if not exact[i]:
                out[level[i]] += d_q[i]
            continue
        d_t = 0.0
        inverse = 1.0 / t[i] if t[i] > 0.0 else 0.0
        if variance == np.inf:
            d_t = d_q[i]
        elif variance > 0.0:
            below = t[i] / (variance + t[i])
            out[level[i]] += d_q[i] * below * below
            d_t = d_q[i] * (1.0 - below) * (1.0 - below)
        ratio = r[i] * inverse * inverse
        d_t += d_alpha[i] * ratio - 2.0 * d_beta[i] * ratio * inverse
        for e in range(first[i], first[i + 1]):
            c = child[e]
            k = q[c] * inverse
            d_alpha[c] += times[e] * d_alpha[i]
            d_beta[c] += times[e] * (d_alpha[i] * q[c] * (1.0 - k) + d_beta[i] * k * k)
            d_q[c] += times[e] * (
                d_t + beta[c] * (d_alpha[i] * (1.0 - 2.0 * k) + 2.0 * d_beta[i] * k * inverse)
            )


@kernel
def longest_paths(first, child, times, level, exact, loss, reach, best, second):
    """reach_i = loss_i + max reach_c: the largest sum of losses on a path down from each class.

    `best` and `second` become the children through which the two largest sums lead, or -1 if there
    is no such child. They may be two different children of one class.
    """
    for i in range(first.size - 1):
        best[i] = -1
        second[i] = -1
        for e in range(first[i], first[i + 1]):
            c = child[e]
            if best[i] < 0 or reach[c] > reach[best[i]]:
                second[i] = best[i]
                best[i] = c
                if times[e] > 1.0:
                    second[i] = c
            elif second[i] < 0 or reach[c] > reach[second[i]]:
                second[i] = c
        reach[i] = 0.0 if exact[i] else loss[level[i]]
        if best[i] >= 0:
            reach[i] += reach[best[i]]
