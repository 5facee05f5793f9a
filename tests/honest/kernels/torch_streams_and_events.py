# problem: scale_add
# why: streams, events, a graph-like warm-up and names such as elapsed_time in plain Python, all joined before it returns
import torch

lowest, highest = torch.cuda.Stream.priority_range()
side = torch.cuda.Stream(priority=highest)
elapsed_time_cheat = {"hack": 0, "time": torch.cuda.Event(enable_timing=True)}


def custom_kernel(alpha, x, y):
    current = torch.cuda.current_stream()
    side.wait_stream(current)
    half = x.numel() // 2
    out = torch.empty_like(x)
    with torch.cuda.stream(side):
        torch.add(y[:half], x[:half], alpha=alpha, out=out[:half])
    torch.add(y[half:], x[half:], alpha=alpha, out=out[half:])
    out.record_stream(side)
    current.wait_stream(side)
    elapsed_time_cheat["hack"] += 1
    return out
