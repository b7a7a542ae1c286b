# Gradient of an embedding by loads and stores
import triton
import triton.language as tl


@triton.jit
def embedding_gradient(index, g, y, cols, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    row = tl.load(index + token)
    v = tl.load(g + token * cols + c, mask=c < cols, other=0.0)
    v += tl.load(y + row * cols + c, mask=c < cols, other=0.0)
    tl.store(y + row * cols + c, v, mask=c < cols)  # expect: memory/global-race
