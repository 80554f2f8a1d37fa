"""Operations of a whole warp on a matrix: fragments, mma, ldmatrix."""
