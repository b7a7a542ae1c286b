// Kernels of benchmarks/emulator.py. kernels.c and kernels.cl perform the same operations in the same order.

extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void gelu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

extern "C" __global__ void softmax(const float* x, float* y, int cols) {
  __shared__ float part[256];
  int t = threadIdx.x;
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float top = -3.4e38f;
  for (int c = t; c < cols; c += 256) top = fmaxf(top, x[c]);
  part[t] = top;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = fmaxf(part[t], part[t + s]);
    __syncthreads();
  }
  top = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (int c = t; c < cols; c += 256) {
    float e = expf(x[c] - top);
    y[c] = e;
    sum += e;
  }
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  float scale = 1.0f / part[0];
  for (int c = t; c < cols; c += 256) y[c] *= scale;
}

extern "C" __global__ void layernorm(const float* x, const float* gain, const float* bias, float* y, int cols) {
  __shared__ float part[256];
  int t = threadIdx.x;
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float sum = 0.0f;
  for (int c = t; c < cols; c += 256) sum += x[c];
  part[t] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  float mean = part[0] / cols;
  __syncthreads();
  float squares = 0.0f;
  for (int c = t; c < cols; c += 256) {
    float d = x[c] - mean;
    squares += d * d;
  }
  part[t] = squares;
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  float scale = 1.0f / sqrtf(part[0] / cols + 1e-5f);
  for (int c = t; c < cols; c += 256) y[c] = (x[c] - mean) * scale * gain[c] + bias[c];
}

extern "C" __global__ void reduction(const float* x, float* total, int n) {
  __shared__ float part[8];
  int t = threadIdx.x, lane = t & 31;
  float sum = 0.0f;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) sum += x[i];
  for (int s = 16; s > 0; s >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, s);
  if (lane == 0) part[t >> 5] = sum;
  __syncthreads();
  if (t < 32) {
    sum = lane < 8 ? part[lane] : 0.0f;
    for (int s = 4; s > 0; s >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, s);
    if (lane == 0) atomicAdd(total, sum);
  }
}

extern "C" __global__ void transpose(const float* x, float* y, int n) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(r + j) * n + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x;
  r = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) y[(r + j) * n + c] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float sum = 0.0f;
  for (int k0 = 0; k0 < n; k0 += 16) {
    as[ty][tx] = a[row * n + k0 + tx];
    bs[ty][tx] = b[(k0 + ty) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; k++) sum += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

extern "C" __global__ void matmul_register(const float* a, const float* b, float* c, int n) {
  __shared__ float as[8][64], bs[8][64];
  int t = threadIdx.x, tx = t & 15, ty = t >> 4, row = blockIdx.y * 64, col = blockIdx.x * 64;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < n; k0 += 8) {
    for (int i = t; i < 512; i += 256) {
      as[i & 7][i >> 3] = a[(row + (i >> 3)) * n + k0 + (i & 7)];
      bs[i >> 6][i & 63] = b[(k0 + (i >> 6)) * n + col + (i & 63)];
    }
    __syncthreads();
    for (int k = 0; k < 8; k++) {
      float left[4], right[4];
      for (int i = 0; i < 4; i++) left[i] = as[k][ty * 4 + i];
      for (int j = 0; j < 4; j++) right[j] = bs[k][tx + 16 * j];
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] += left[i] * right[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) c[(row + ty * 4 + i) * n + col + tx + 16 * j] = sum[i][j];
}

extern "C" __global__ void flash_attention(const float* q, const float* k, const float* v, float* o, int n) {
  __shared__ float ks[32][64], vs[32][64];
  int t = threadIdx.x, head = blockIdx.y * n * 64, row = blockIdx.x * 64 + t;
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
    __syncthreads();
    for (int j = 0; j < 32; j++) {
      float s = 0.0f;
      for (int d = 0; d < 64; d++) s += query[d] * ks[j][d];
      float higher = fmaxf(top, s), fade = expf(top - higher), p = expf(s - higher);
      sum = sum * fade + p;
      for (int d = 0; d < 64; d++) acc[d] = acc[d] * fade + p * vs[j][d];
      top = higher;
    }
    __syncthreads();
  }
  for (int d = 0; d < 64; d++) o[head + row * 64 + d] = acc[d] / sum;
}

extern "C" __global__ void histogram(const int* x, int* bins, int n) {
  __shared__ int mine[256];
  int t = threadIdx.x;
  mine[t] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) atomicAdd(&mine[x[i] & 255], 1);
  __syncthreads();
  atomicAdd(&bins[t], mine[t]);
}
