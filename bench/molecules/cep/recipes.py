"""How networks are trained on CEP: as in Lei et al. 2017 and its release, or as we do it."""

from __future__ import annotations

import math
from dataclasses import replace

from wlkernelnn.bench.harness.trained import TrainedOptions
from wlkernelnn.training import FitOptions

# Lei et al. 2017, section 6.3, and its release: until the learning rate is below 5e-6.
LR, LR_MIN, LR_DECAY, LR_DECAY_SAMPLES = 1e-3, 5e-6, 0.9, 100_000
SAMPLES = LR_DECAY_SAMPLES * math.ceil(math.log(LR_MIN / LR) / math.log(LR_DECAY))
PUBLISHED = FitOptions(
    batch_size=20,
    lr=LR,
    weight_decay=0.0,
    schedule="exponential",
    warmup_epochs=0,
    lr_min=LR_MIN,
    lr_decay=LR_DECAY,
    lr_decay_samples=LR_DECAY_SAMPLES,
    gradient_clip=0.0,
    ema_decay=0.0,
    bucket_width=0.05,
)
# Ours: of "wlkernelnn train", for a set of this size.
OURS = FitOptions(epochs=40, lr=2e-3)


def recipe_of(
    num_molecules: int, seed: int, options: TrainedOptions, published: bool
) -> tuple[FitOptions, int]:
    """How networks are trained, by the published recipe or by ours, and the epochs of the whole recipe."""
    recipe = OURS
    if published:
        recipe = replace(PUBLISHED, epochs=math.ceil(SAMPLES / num_molecules))
    epochs = options.limit(recipe.epochs)
    squeezed = replace(
        recipe,
        epochs=epochs,
        lr_decay_samples=max(1, round(recipe.lr_decay_samples * epochs / recipe.epochs)),
        seed=seed,
        accelerator=options.accelerator,
        matmul_precision=options.matmul_precision,
    )
    return squeezed, recipe.epochs
