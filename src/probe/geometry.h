// How the tokens of a sequence lie to each other in the residual stream: whether they all become one
// (rank collapse: Dong et al. 2021, arXiv 2103.03404).
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace plumb {

// Sums over sequences; X is the matrix of at most 64 real tokens of one, at least two.
struct Geometry {
  double cosine = 0;    // mean over pairs of tokens of their cosine: 1 where all point one way
  double residual = 0;  // |X - 1 mean(X)| / |X| in the Frobenius norm: 0 where all tokens are equal
  double rank =
      0;  // exp(H(s^2 / sum s^2)), s the singular values of X (Roy and Vetterli 2007): 1 .. min(T, C)
  int64_t sequences = 0;

  Geometry& operator+=(const Geometry& o);
};

// Of at most two sequences of x (B, T, C); mask (B, T) u8 or undefined. None where no sequence has two tokens
// that are not zero and finite.
Geometry token_geometry(const Tensor& x, const Tensor& mask);

// Eigenvalues of a symmetric n x n matrix, unordered; the matrix is used up. Householder's reduction to three
// diagonals and the implicit QL iteration (Golub and Van Loan, Matrix Computations, 8.3).
std::vector<double> symmetric_eigenvalues(std::vector<double>& matrix, int64_t n);

}  // namespace plumb
