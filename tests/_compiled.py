"""Compiled and eager results side by side, for a process with the compiler's usual settings."""

import jax
import jax.numpy as jnp
import numpy as np


def products() -> None:
    """A vectorised product followed by a reduction, large enough for the faulty path."""
    rows = jnp.stack([jnp.arange(16_385.0), jnp.zeros(16_385), jnp.zeros(16_385)], 1)

    def squares(x):
        return jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(x)

    np.testing.assert_array_equal(jax.jit(squares)(rows), squares(rows))


def conditionals() -> None:
    """A vectorised conditional whose branch takes a product and a softmax."""
    a, b = jax.random.normal(jax.random.key(0), (2, 12, 2))
    levels = jax.random.uniform(jax.random.key(1), (4000,))

    def branch(level):
        return jax.lax.cond(
            level < 0.5, lambda: jnp.zeros((12, 12)), lambda: jax.nn.softmax(a @ b.T, 1)
        )

    compiled, eager = jax.jit(jax.vmap(branch))(levels), jax.vmap(branch)(levels)
    np.testing.assert_allclose(compiled, eager, rtol=1e-12)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    products()
    conditionals()
    print("equal")
