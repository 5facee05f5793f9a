"""`torch._scaled_mm` of float4 in blocks of sixteen on the CPU, where torch has none: for the emulated device only.

Scales are float8_e4m3fn in the order that cuBLAS wants them in: tiles of 128 rows and 4 columns, each as 32 rows of 4 times 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BLOCK, TILE_ROWS, TILE_COLUMNS = 16, 128, 4
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def emulated(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    **named: Any,
) -> Any:
    """Stand in for `torch._scaled_mm`: torch's own, but for mat_a [m, k / 2] @ mat_b [k / 2, n], both float4_e2m1fn_x2, each sixteen values
    of a row of a or a column of b times their scale. The sums are in float32. Raises ValueError where scales are missing."""
    import torch

    if str(mat_a.dtype) != "torch.float4_e2m1fn_x2" or scale_a.dtype != torch.float8_e4m3fn or mat_a.dim() != 2:
        return torch._scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, **named)
    product = _dequantized(mat_a, scale_a) @ _dequantized(mat_b.t(), scale_b).t()
    if bias is not None:
        product = product + bias.float()
    return product.to(out_dtype or torch.bfloat16)


def _dequantized(matrix: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    import torch

    raw = matrix.contiguous().view(torch.uint8).long()
    table = torch.tensor(VALUES)
    values = torch.stack((table[raw & 15], table[raw >> 4]), -1).flatten(1)
    rows, columns = values.shape[0], -(-values.shape[1] // BLOCK)
    return (values.view(rows, columns, BLOCK) * _scales(scale, rows, columns).unsqueeze(-1)).flatten(1)


def _scales(scale: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    down, across = -(-rows // TILE_ROWS), -(-columns // TILE_COLUMNS)
    if scale.numel() != down * across * TILE_ROWS * TILE_COLUMNS:
        text = f"{scale.numel()} scales for {rows} rows of {columns} blocks; {down * across * TILE_ROWS * TILE_COLUMNS} are needed"
        raise ValueError(f"torch._scaled_mm on the emulated device: {text}")
    tiles = scale.float().contiguous().view(down, across, 32, 4, 4)
    return tiles.permute(0, 3, 2, 1, 4).reshape(down * TILE_ROWS, across * TILE_COLUMNS)[:rows, :columns]
