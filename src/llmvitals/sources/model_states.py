"""States of constant size: the shapes of linear attention and of Mamba layers, as configs name them."""

from __future__ import annotations

from llmvitals.capacity import weights
from llmvitals.sources.model_fields import Fields


def delta(fields: Fields) -> tuple[int, int, int, int, int]:
    names = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim", "conv_kernel_dim")
    keys, values, key_dim, value_dim, kernel = (fields.whole(f"linear_{name}") for name in names)
    return keys, values, key_dim, value_dim, kernel


def delta_state(fields: Fields) -> int:
    return weights.delta_state(*delta(fields))


def mamba(fields: Fields) -> tuple[int, int, int]:
    """Inner width, state, kernel."""
    expand = fields.whole("mamba_expand", fields.whole("expand", 2))
    inner = fields.whole("hidden_size") * expand
    own = fields.family in ("mamba", "falcon_mamba")
    inner = fields.whole("intermediate_size", inner) if own else inner
    state = fields.whole("mamba_d_state", fields.whole("state_size", 16))
    return inner, state, fields.whole("mamba_d_conv", fields.whole("conv_kernel", 4))


def mamba_state(fields: Fields) -> int:
    return weights.mamba_state(*mamba(fields))


def mamba2(fields: Fields) -> tuple[int, int, int, int, int]:
    """Heads, their size, groups, state, kernel; Nemotron-H and Bamba name them differently."""

    def either(*names: str) -> int:
        return fields.whole(next((name for name in names if fields.get(name) is not None), names[0]))

    return (
        either("mamba_n_heads", "mamba_num_heads", "num_heads"),
        either("mamba_d_head", "mamba_head_dim", "head_dim"),
        either("mamba_n_groups", "n_groups"),
        either("mamba_d_state", "ssm_state_size", "state_size"),
        either("mamba_d_conv", "conv_kernel"),
    )


def mamba2_state(fields: Fields) -> int:
    return weights.mamba2_state(*mamba2(fields))
