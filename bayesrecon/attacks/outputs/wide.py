"""Wide residual networks for classifiers of images, and their mirror images for decoders.

Zagoruyko and Komodakis (2016): a convolution, three groups of blocks with 16, 32 and 64 times the width, the second and
third of which halve the image, and the mean of each channel. The decoder starts with an eighth of the image's sides and
doubles them in each group. They are built with Flax (`bayesrecon[networks]`).
"""

from collections.abc import Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.attacks.outputs.architectures import Network, Tree
from bayesrecon.errors import BayesreconError, MissingExtraError

_GROUPS = (16, 32, 64)  # channels per unit of width
_HALVED = 8  # the sides of an image must be multiples of this
_MOMENTUM = 0.9  # of the running means of batch normalisation


def wide_resnet(shape: Sequence[int], outputs: int, *, depth: int = 28, width: int = 5) -> Network:
    """A classifier of images, records `(M, height * width * channels)` to `(M, N)` logits.

    Args:
        shape: `(height, width)` or `(height, width, channels)`, with sides that are multiples of eight (pad others).
        outputs: N.
        depth: 6 n + 4 for n blocks per group.
        width: factor of the 16, 32 and 64 channels.

    Raises:
        BayesreconError: a side is not a multiple of eight, the depth, width or number of outputs is invalid, or Flax is
            not installed.
    """
    shape, blocks = _checked(shape, outputs, depth, width)
    return _network(_modules().Classifier(shape, outputs, blocks, width), shape, f"wide {depth}-{width} {shape}")


def wide_decoder(outputs: int, shape: Sequence[int], *, depth: int = 28, width: int = 5) -> Network:
    """A decoder from outputs `(M, N)` to pixels `(M, height * width * channels)` between 0 and 1.

    Arguments and errors are those of `wide_resnet`.
    """
    shape, blocks = _checked(shape, outputs, depth, width)
    name = f"wide decoder {depth}-{width} {shape}"
    return _network(_modules().Decoder(shape, outputs, blocks, width), (outputs,), name)


def _checked(shape: Sequence[int], outputs: int, depth: int, width: int) -> tuple[tuple[int, int, int], int]:
    sides = tuple(int(s) for s in shape)
    if len(sides) not in (2, 3) or min(sides) < 1 or any(s % _HALVED for s in sides[:2]):
        raise BayesreconError(f"images {sides}: wide networks take sides that are multiples of {_HALVED}; pad them")
    blocks, rest = divmod(depth - 4, 6)
    if blocks < 1 or rest or width < 1 or outputs < 1:
        raise BayesreconError(
            f"depth={depth}, width={width}, {outputs} outputs: expected a depth of 10, 16, 22, 28, ..., and 1 or more"
        )
    return (sides[0], sides[1], sides[2] if len(sides) == 3 else 1), blocks


def _network(module: Any, shape: tuple[int, ...], name: str) -> Network:
    def init(key: jax.Array) -> tuple[Tree, Tree]:
        variables_ = module.init(key, jnp.zeros((1, *shape), jnp.float32), False)
        return variables_["params"], variables_["batch_stats"]

    def apply(params: Tree, state: Tree, x: Array, training: bool) -> tuple[Array, Tree]:
        variables, x = {"params": params, "batch_stats": state}, x.reshape(len(x), *shape)
        if not training:
            return module.apply(variables, x, False), state
        outputs, updated = module.apply(variables, x, True, mutable=["batch_stats"])
        return outputs, updated["batch_stats"]

    return Network(init, apply, name)


@cache
def _modules() -> Any:
    """The Flax modules, which are defined when they are first needed."""
    try:
        from flax import linen as nn  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError("a wide residual network", "networks") from None

    def normal(training: bool, **settings: Any) -> Any:
        return nn.BatchNorm(use_running_average=not training, momentum=_MOMENTUM, **settings)

    he = nn.initializers.he_normal()
    plain = partial(nn.Conv, use_bias=False, kernel_init=he)
    transposed = partial(nn.ConvTranspose, use_bias=False, kernel_init=he)

    class Block(nn.Module):  # type: ignore[misc]
        """Two times batch normalisation, ReLU and convolution, plus the input. `up` doubles the image."""

        channels: int
        step: int
        up: bool

        @nn.compact  # pyright: ignore[reportUntypedFunctionDecorator]
        def __call__(self, x: Array, training: bool) -> Array:
            first = nn.relu(normal(training)(x))
            convolve, wide = (transposed if self.up else plain), (4, 4) if self.up and self.step > 1 else (3, 3)
            y = convolve(self.channels, wide, strides=(self.step, self.step))(first)
            y = convolve(self.channels, (3, 3))(nn.relu(normal(training)(y)))
            if self.step > 1 or x.shape[-1] != self.channels:
                narrow = (self.step, self.step) if self.up else (1, 1)
                x = convolve(self.channels, narrow, strides=(self.step, self.step))(first)
            return x + y

    class Classifier(nn.Module):  # type: ignore[misc]
        shape: tuple[int, int, int]
        outputs: int
        blocks: int
        width: int

        @nn.compact  # pyright: ignore[reportUntypedFunctionDecorator]
        def __call__(self, x: Array, training: bool) -> Array:
            x = normal(training, use_scale=False, use_bias=False)(x)  # standardised channel by channel
            x = plain(16, (3, 3))(x)
            for group, channels in enumerate(_GROUPS):
                for i in range(self.blocks):
                    step = 2 if group and not i else 1
                    x = Block(channels * self.width, step, False)(x, training)
            x = nn.relu(normal(training)(x)).mean(axis=(1, 2))
            return nn.Dense(self.outputs)(x)

    class Decoder(nn.Module):  # type: ignore[misc]
        shape: tuple[int, int, int]
        outputs: int
        blocks: int
        width: int

        @nn.compact  # pyright: ignore[reportUntypedFunctionDecorator]
        def __call__(self, z: Array, training: bool) -> Array:
            height, across, colours = self.shape
            begin = (height // _HALVED, across // _HALVED, 64 * self.width)
            x = nn.Dense(begin[0] * begin[1] * begin[2])(z).reshape(len(z), *begin)
            for channels in (32 * self.width, 16 * self.width, 16 if self.width > 1 else 8):
                for i in range(self.blocks):
                    x = Block(channels, 1 if i else 2, True)(x, training)
            x = transposed(colours, (3, 3))(nn.relu(normal(training)(x)))
            return jax.nn.sigmoid(x).reshape(len(z), -1)

    return SimpleNamespace(Classifier=Classifier, Decoder=Decoder)
