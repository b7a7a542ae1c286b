# Row pitch of another tensor
import triton
import triton.language as tl


@triton.jit
def rotate(x, cosine, sine, y, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < half
    a = tl.load(x + row * 2 * half + c, mask=inside)
    b = tl.load(x + row * 2 * half + half + c, mask=inside)
    cs = tl.load(cosine + row * half + c, mask=inside)
    sn = tl.load(sine + row * 2 * half + c, mask=inside)  # expect: memory/out-of-bounds
    tl.store(y + row * 2 * half + c, a * cs - b * sn, mask=inside)
    tl.store(y + row * 2 * half + half + c, b * cs + a * sn, mask=inside)
