"""Exact discrete noise: drawn with integers only, from cryptographically secure random words.

noise       the two public functions, discrete Laplace and discrete Gaussian noise
inversion   draws by looking up random words in tables of certified integers
cumulative  how these tables are computed, and why they are exact
words       where random words come from: OpenSSL's generator or the operating system
"""
