"""The product of float4 in blocks on the emulated device, against one computed value by value."""

from __future__ import annotations

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.launch import scaled_mm


VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
M, N, K = 130, 3, 96


def tiled(scales: torch.Tensor) -> torch.Tensor:
    """Scales in the order of cuBLAS, padded with zeros: where each goes, one by one."""
    rows, columns = -(-scales.shape[0] // 128), -(-scales.shape[1] // 4)
    tiles = torch.zeros(rows * columns * 512)
    for row in range(scales.shape[0]):
        for column in range(scales.shape[1]):
            tile = (row // 128) * columns + column // 4
            tiles[tile * 512 + (row % 32) * 16 + (row % 128) // 32 * 4 + column % 4] = scales[row, column]
    return tiles.to(torch.float8_e4m3fn)


def drawn() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Bytes and scales of both matrices."""
    generator = torch.Generator().manual_seed(7)
    packed = [torch.randint(0, 256, (rows, K // 2), dtype=torch.uint8, generator=generator) for rows in (M, N)]
    scales = [torch.rand(rows, K // 16, generator=generator).to(torch.float8_e4m3fn).float() for rows in (M, N)]
    return packed, scales


def wide(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the numbers, computed one by one."""
    rows = []
    for row, row_scales in zip(packed.tolist(), scales.tolist(), strict=True):
        codes = [code for byte in row for code in (byte & 15, byte >> 4)]
        rows.append([VALUES[code & 7] * (-1 if code > 7 else 1) * row_scales[index // 16] for index, code in enumerate(codes)])
    return torch.tensor(rows, dtype=torch.float64)


def test_it_is_the_product_of_the_scaled_numbers() -> None:
    """Also where 128 does not divide the rows, and where a tile of scales is not full."""
    packed, scales = drawn()
    expected = wide(packed[0], scales[0]) @ wide(packed[1], scales[1]).t()
    a, b = (operand.view(torch.float4_e2m1fn_x2) for operand in packed)
    product = scaled_mm.emulated(a, b.t(), tiled(scales[0]), tiled(scales[1]), out_dtype=torch.float32)
    assert product.shape == (M, N) and torch.allclose(product.double(), expected, rtol=1e-5, atol=1e-4)
    biased = scaled_mm.emulated(a, b.t(), tiled(scales[0]), tiled(scales[1]), bias=torch.ones(N), out_dtype=torch.float16)
    assert biased.dtype == torch.float16 and torch.allclose(biased.double(), expected + 1, rtol=1e-2, atol=1e-1)


def test_scales_that_are_not_enough_are_told() -> None:
    packed, scales = drawn()
    a, b = (operand.view(torch.float4_e2m1fn_x2) for operand in packed)
    with pytest.raises(ValueError, match="512 scales for 130 rows of 6 blocks; 2048 are needed"):
        scaled_mm.emulated(a, b.t(), tiled(scales[1])[:512], tiled(scales[1]))
