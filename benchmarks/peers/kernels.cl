// kernels.cu in OpenCL 1.2, which has no shuffles: reductions use local memory.
#define GROUP __kernel __attribute__((reqd_work_group_size(256, 1, 1)))

GROUP void saxpy(float a, __global const float* x, __global float* y, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = a * x[i] + y[i];
}

GROUP void gelu(__global const float* x, __global float* y, int n) {
  int i = get_global_id(0);
  if (i >= n) return;
  float v = x[i];
  y[i] = 0.5f * v * (1.0f + tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
}

GROUP void softmax(__global const float* x, __global float* y, int cols) {
  __local float part[256];
  int t = get_local_id(0);
  x += get_group_id(0) * cols;
  y += get_group_id(0) * cols;
  float top = -3.4e38f;
  for (int c = t; c < cols; c += 256) top = fmax(top, x[c]);
  part[t] = top;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = fmax(part[t], part[t + s]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  top = part[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0.0f;
  for (int c = t; c < cols; c += 256) {
    float e = exp(x[c] - top);
    y[c] = e;
    sum += e;
  }
  part[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float scale = 1.0f / part[0];
  for (int c = t; c < cols; c += 256) y[c] *= scale;
}

GROUP void layernorm(__global const float* x, __global const float* gain, __global const float* bias,
                     __global float* y, int cols) {
  __local float part[256];
  int t = get_local_id(0);
  x += get_group_id(0) * cols;
  y += get_group_id(0) * cols;
  float sum = 0.0f;
  for (int c = t; c < cols; c += 256) sum += x[c];
  part[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float mean = part[0] / cols;
  barrier(CLK_LOCAL_MEM_FENCE);
  float squares = 0.0f;
  for (int c = t; c < cols; c += 256) {
    float d = x[c] - mean;
    squares += d * d;
  }
  part[t] = squares;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float scale = 1.0f / sqrt(part[0] / cols + 1e-5f);
  for (int c = t; c < cols; c += 256) y[c] = (x[c] - mean) * scale * gain[c] + bias[c];
}

GROUP void reduction(__global const float* x, __global float* total, int n) {
  __local float part[256];
  int t = get_local_id(0);
  float sum = 0.0f;
  for (int i = get_group_id(0) * 256 + t; i < n; i += get_num_groups(0) * 256) sum += x[i];
  part[t] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) {
    int old, seen = as_int(*total);
    do {
      old = seen;
      seen = atomic_cmpxchg((__global int*)total, old, as_int(as_float(old) + part[0]));
    } while (seen != old);
  }
}

__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void transpose(
    __global const float* x, __global float* y, int n) {
  __local float tile[32][33];
  int tx = get_local_id(0), ty = get_local_id(1);
  int c = get_group_id(0) * 32 + tx, r = get_group_id(1) * 32 + ty;
  for (int j = 0; j < 32; j += 8) tile[ty + j][tx] = x[(r + j) * n + c];
  barrier(CLK_LOCAL_MEM_FENCE);
  c = get_group_id(1) * 32 + tx;
  r = get_group_id(0) * 32 + ty;
  for (int j = 0; j < 32; j += 8) y[(r + j) * n + c] = tile[tx][ty + j];
}

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void matmul_tiled(
    __global const float* a, __global const float* b, __global float* c, int n) {
  __local float as[16][16], bs[16][16];
  int tx = get_local_id(0), ty = get_local_id(1), row = get_global_id(1), col = get_global_id(0);
  float sum = 0.0f;
  for (int k0 = 0; k0 < n; k0 += 16) {
    as[ty][tx] = a[row * n + k0 + tx];
    bs[ty][tx] = b[(k0 + ty) * n + col];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 16; k++) sum += as[ty][k] * bs[k][tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + col] = sum;
}

GROUP void matmul_register(__global const float* a, __global const float* b, __global float* c, int n) {
  __local float as[8][64], bs[8][64];
  int t = get_local_id(0), tx = t & 15, ty = t >> 4, row = get_group_id(1) * 64, col = get_group_id(0) * 64;
  float sum[4][4];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) sum[i][j] = 0.0f;
  for (int k0 = 0; k0 < n; k0 += 8) {
    for (int i = t; i < 512; i += 256) {
      as[i & 7][i >> 3] = a[(row + (i >> 3)) * n + k0 + (i & 7)];
      bs[i >> 6][i & 63] = b[(k0 + (i >> 6)) * n + col + (i & 63)];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 8; k++) {
      float left[4], right[4];
      for (int i = 0; i < 4; i++) left[i] = as[k][ty * 4 + i];
      for (int j = 0; j < 4; j++) right[j] = bs[k][tx + 16 * j];
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] += left[i] * right[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) c[(row + ty * 4 + i) * n + col + tx + 16 * j] = sum[i][j];
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void flash_attention(
    __global const float* q, __global const float* k, __global const float* v, __global float* o, int n) {
  __local float ks[32][64], vs[32][64];
  int t = get_local_id(0), head = get_group_id(1) * n * 64, row = get_group_id(0) * 64 + t;
  float query[64], acc[64], top = -3.4e38f, sum = 0.0f;
  for (int d = 0; d < 64; d++) {
    query[d] = q[head + row * 64 + d] * 0.125f;
    acc[d] = 0.0f;
  }
  for (int j0 = 0; j0 < n; j0 += 32) {
    for (int j = 0; j < 32; j++) {
      ks[j][t] = k[head + (j0 + j) * 64 + t];
      vs[j][t] = v[head + (j0 + j) * 64 + t];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < 32; j++) {
      float s = 0.0f;
      for (int d = 0; d < 64; d++) s += query[d] * ks[j][d];
      float higher = fmax(top, s), fade = exp(top - higher), p = exp(s - higher);
      sum = sum * fade + p;
      for (int d = 0; d < 64; d++) acc[d] = acc[d] * fade + p * vs[j][d];
      top = higher;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int d = 0; d < 64; d++) o[head + row * 64 + d] = acc[d] / sum;
}

GROUP void histogram(__global const int* x, __global int* bins, int n) {
  __local int mine[256];
  int t = get_local_id(0);
  mine[t] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_group_id(0) * 256 + t; i < n; i += get_num_groups(0) * 256) atomic_inc(&mine[x[i] & 255]);
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_add(&bins[t], mine[t]);
}
