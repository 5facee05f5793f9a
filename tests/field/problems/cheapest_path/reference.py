import torch


def reference(cost):
    total = cost.cumsum(1)
    for row in range(1, len(cost)):
        total[row, 0] = total[row - 1, 0] + cost[row, 0]
        for column in range(1, cost.shape[1]):
            total[row, column] = torch.minimum(total[row - 1, column], total[row, column - 1]) + cost[row, column]
    return total
