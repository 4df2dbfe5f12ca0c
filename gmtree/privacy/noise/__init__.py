"""Exact discrete noise: drawn with integers only, from cryptographically secure random words.

mechanism   the base class: sampler, moments, privacy loss and words of one law of noise
laplace     discrete Laplace noise
gaussian    discrete Gaussian noise
registry    all mechanisms by name
inversion   draws by looking up random words in tables of certified integers
cumulative  how these tables are computed, and why they are exact
words       where random words come from: OpenSSL's generator or the operating system
"""
