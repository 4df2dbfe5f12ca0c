r"""Theory: why two sweeps give the optimum, its errors, and the optimum within bounds.

The problem
-----------

Node i of a tree has a measurement $v_i$ with variance $s_i$. We look for the values x that minimise

$$ \sum_i \frac{(x_i - v_i)^2}{s_i} $$

among all values in which each parent is the sum of its children. For independent errors this is the
best linear unbiased estimate.

Two sweeps
----------

*Claim.* If all values below node i are optimal for a given $x_i$, the terms of node i and of the
nodes below it add up to $(x_i - z_i)^2 / q_i$ plus a constant.

*Proof*, from the leaves up. At a leaf $z_i = v_i$ and $q_i = s_i$. At an inner node let $t = \sum
q_c$ and $b = \sum z_c$ over its children c. To minimise $\sum (x_c - z_c)^2 / q_c$ for given
$\sum x_c = x_i$, all $(x_c - z_c) / q_c$ must be equal (Lagrange), so

$$ x_c = z_c + \frac{q_c}{t} (x_i - b), $$

and the minimum is $(x_i - b)^2 / t$. Adding $(x_i - v_i)^2 / s_i$ and completing the square gives
the claim with

$$ q_i = \frac{s_i t}{s_i + t}, \qquad z_i = \frac{t v_i + s_i b}{s_i + t} . $$

At the root $x = z$ is optimal. So one upward sweep computes z and q, and one downward sweep
computes x.

>>> import numpy as np, gmtree as gm
>>> tree = gm.Tree.from_parents([-1, 0, 0])
>>> v, s = np.array([10.0, 3.0, 4.0]), np.array([1.0, 1.0, 2.0])
>>> t, b = s[1] + s[2], v[1] + v[2]
>>> root = (t * v[0] + s[0] * b) / (s[0] + t)
>>> x = [root, v[1] + s[1] / t * (root - b), v[2] + s[2] / t * (root - b)]
>>> bool(np.allclose(x, gm.reconcile(tree, v, s)))
True

Generation Matrix
-----------------

Let M be the constraint matrix, so that $M^T x = 0$. Then $M^T \mathrm{diag}(s) M = G^T G$, where G
is the Generation Matrix of the inner nodes with node weights $\sqrt{s_i + t_i}$ and edge weights
$s_i / \sqrt{s_i + t_i}$. The upward sweep is a solve with $G^T$, and the downward sweep is a solve
with G. This factorisation is the main result of the paper.

Errors
------

With $k_c = q_c / t$, the variances of the consistent values are $P = q$ at the root, and below it

$$ P_c = q_c (1 - k_c) + k_c^2 P_{parent} . $$

Two facts are used below. First, $P_i \le q_i \le t_i$: adding measurements never increases a
variance. Second, if the paths from node l to two leaves part at its children a and b, the
covariance of these leaves is

$$ k_a k_b (P_l - t_l) \prod k \le 0, $$

with the product over the nodes below a and b on both paths. *Errors of different leaves are never
positively correlated.*

The optimum with leaves that must not be negative
-------------------------------------------------

*Algorithm.* Solve without bounds. Hold every leaf with a negative value at zero, as if it were
measured as 0 with variance 0. Solve again, and repeat until all leaves are non-negative. Held
leaves are never released.

*Theorem.* The result is the optimum among all consistent values with non-negative leaves.

*Proof.* As a function of the leaves, the objective is quadratic with a positive definite matrix Q.
Let F be a set of free leaves, while all other leaves are held at zero. The inverse C of the block
$Q_{FF}$ is the covariance matrix of the free leaves. By the second fact, which also holds with
exact measurements, its off-diagonal entries are not positive.

Let y be the optimum, and suppose that all held leaves are zero in y. This is true initially, when
no leaf is held. Let x be the solution without bounds on the free leaves. The gradient vanishes at
x, and at y it equals some $\lambda \ge 0$ with $\lambda_i y_i = 0$. Subtracting the two systems
gives

$$ y_F - x_F = C \lambda . $$

Suppose $x_j < 0$ but $y_j > 0$ for a free leaf j. Then $\lambda_j = 0$, so $y_j = x_j + \sum_{i \ne
j} C_{ji} \lambda_i \le x_j < 0$, a contradiction. So $y_j = 0$: every leaf that the algorithm holds
is zero in the optimum. Each round holds at least one more leaf, so the algorithm ends, and its last
x is feasible. Since y is feasible for the problem that x solves without bounds, x is at least as
good as y, and therefore equal to y. ∎

In practice a few rounds suffice:

>>> rng = np.random.default_rng(0)
>>> tree = gm.shapes.complete(10, 5)
>>> noisy = tree.aggregate(rng.integers(0, 5, tree.n_leaves)) + rng.laplace(scale=5, size=tree.n)
>>> x, info = gm.Consistency(tree).project(noisy, nonnegative=True, return_info=True)
>>> bool(x.min() >= 0), info.passes
(True, 4)

Bounds on both sides, at any node
---------------------------------

With upper bounds, or bounds at inner nodes, a held leaf may have to be released again. Instead,
each subtree reports to its parent how it would respond to a price $\mu$ per unit: $x_p(\mu)$, a
polyline that never decreases. For a leaf it is $v + s \mu$, clipped to the bounds. At an inner node
the responses of the children are added up; then the node's own measurement shears the sum, and its
bounds clip it. At the root the price is 0. On the way down, each node derives the price of its
children from its own value. Because the objective is convex, such prices exist and prove
optimality. Subtrees without bounds have linear responses, so only bounds cost more than two sweeps.
On large trees Newton's method is usually faster. Each round solves for the prices with the straight
piece of each polyline at its current price. Once the pieces no longer change, the prices are
optimal. If that takes too many rounds, the polylines are used.

>>> leaves = gm.Consistency(tree).project(noisy, lower=0, upper=6)[tree.leaves]
>>> bool(leaves.min() >= 0), bool(leaves.max() <= 6)
(True, True)

Whole numbers
-------------

Round the root. If a node has the integer value k, give each child the floor of its optimum, and one
more unit to the children with the largest fractional parts, until their sum is k. There are always
enough children, since k is at most the sum of the ceilings. So every node gets the floor or the
ceiling of its optimum, and no value changes by 1 or more:

>>> whole = gm.Consistency(tree).project(noisy, nonnegative=True, integer=True)
>>> bool(np.abs(whole - x).max() < 1)
True
"""
