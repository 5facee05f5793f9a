# expect: WRONG_ANSWER NON_FINITE
# exp() of a large value overflows, and infinity over infinity is no number: the row's maximum has to be subtracted first.
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        powers = torch.exp(x)
        return powers / powers.sum(dim=-1, keepdim=True)
