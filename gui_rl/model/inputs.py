"""The one input structure of the model: every index array is prepared by the host, so that jitted code has static
shapes.

In: packed rows of tokens with their screenshots. Out: consumed by `gui_rl.model.forward`. Axes: B rows, T tokens, P
patches, M = P / merge_unit visual tokens (a row's visual tokens are its merged patches in order).
"""

from flax import struct
from jaxtyping import Array, Float, Int


@struct.dataclass
class ModelInputs:
    """A batch of rows. Padding tokens have segment 0, padding patches have patch segment 0.

    tokens              token ids; what stands at an image position is ignored
    positions           three-dimensional rotary positions (temporal, height, width), restarted in every segment
    segments            1, 2, ... = the packed sample a token belongs to; attention never crosses segments
    branches            0 = trunk; tokens of branch b > 0 see the trunk and branch b, never another branch
    visual_index        -1 = text, else the row's visual token (0..M-1) that stands at this position
    patches             flattened pixels in the image processor's order (merge blocks first), [-1, 1]
    patch_segments      1, 2, ... = the image a patch belongs to
    patch_yx            row and column of the patch in its image, for the 2-D rotary embedding
    patch_table         four neighbours in the learned position grid, and
    patch_table_weight  their bilinear weights
    """

    tokens: Int[Array, "B T"]
    positions: Int[Array, "B 3 T"]
    segments: Int[Array, "B T"]
    branches: Int[Array, "B T"]
    visual_index: Int[Array, "B T"]
    patches: Float[Array, "B P C"]
    patch_segments: Int[Array, "B P"]
    patch_yx: Int[Array, "B P 2"]
    patch_table: Int[Array, "B P 4"]
    patch_table_weight: Float[Array, "B P 4"]


@struct.dataclass
class VisualFeatures:
    """What the vision encoder hands to the decoder:

    merged features, and the DeepStack features of the first n decoder layers.
    """

    features: Float[Array, "B M D"]
    deepstack: Float[Array, "n B M D"]
