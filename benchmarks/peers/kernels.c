// kernels.cu in C: loops over blocks and threads, with a separate loop over the threads between two barriers.
// Grids are those of cases.py.
#include <math.h>
#define THREADS for (int t = 0; t < 256; t++)

static float fold_max(float* part) {
  for (int s = 128; s > 0; s >>= 1)
    for (int t = 0; t < s; t++) part[t] = fmaxf(part[t], part[t + s]);
  return part[0];
}

static float fold_sum(float* part) {
  for (int s = 128; s > 0; s >>= 1)
    for (int t = 0; t < s; t++) part[t] += part[t + s];
  return part[0];
}

void saxpy(float a, const float* x, float* y, int n) {
  for (int i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

void gelu(const float* x, float* y, int n) {
  for (int i = 0; i < n; i++) {
    float v = x[i];
    y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
  }
}

void softmax(const float* x, float* y, int cols) {
  float part[256];
  for (int block = 0; block < 1024; block++, x += cols, y += cols) {
    THREADS part[t] = -3.4e38f;
    for (int c = 0; c < cols; c += 256) THREADS part[t] = fmaxf(part[t], x[c + t]);
    float top = fold_max(part);
    THREADS part[t] = 0.0f;
    for (int c = 0; c < cols; c += 256) THREADS {
        float e = expf(x[c + t] - top);
        y[c + t] = e;
        part[t] += e;
      }
    float scale = 1.0f / fold_sum(part);
    for (int c = 0; c < cols; c++) y[c] *= scale;
  }
}

void layernorm(const float* x, const float* gain, const float* bias, float* y,
               int cols) {
  float part[256];
  for (int block = 0; block < 1024; block++, x += cols, y += cols) {
    THREADS part[t] = 0.0f;
    for (int c = 0; c < cols; c += 256) THREADS part[t] += x[c + t];
    float mean = fold_sum(part) / cols;
    THREADS part[t] = 0.0f;
    for (int c = 0; c < cols; c += 256) THREADS {
        float d = x[c + t] - mean;
        part[t] += d * d;
      }
    float scale = 1.0f / sqrtf(fold_sum(part) / cols + 1e-5f);
    for (int c = 0; c < cols; c++) y[c] = (x[c] - mean) * scale * gain[c] + bias[c];
  }
}

void reduction(const float* x, float* total, int n) {
  for (int block = 0; block < 64; block++) {
    float sum[256], part[8];
    THREADS sum[t] = 0.0f;
    for (int i = block * 256; i < n; i += 64 * 256) THREADS sum[t] += x[i + t];
    for (int w = 0; w < 8; w++) {
      float* lane = sum + 32 * w;
      for (int s = 16; s > 0; s >>= 1)
        for (int t = 0; t < s; t++) lane[t] += lane[t + s];
      part[w] = lane[0];
    }
    for (int s = 4; s > 0; s >>= 1)
      for (int t = 0; t < s; t++) part[t] += part[t + s];
    *total += part[0];
  }
}

void transpose(const float* x, float* y, int n) {
  float tile[32][33];
  for (int by = 0; by < n; by += 32)
    for (int bx = 0; bx < n; bx += 32) {
      for (int r = 0; r < 32; r++)
        for (int c = 0; c < 32; c++) tile[r][c] = x[(by + r) * n + bx + c];
      for (int r = 0; r < 32; r++)
        for (int c = 0; c < 32; c++) y[(bx + r) * n + by + c] = tile[c][r];
    }
}

void matmul_tiled(const float* a, const float* b, float* c, int n) {
  float as[16][16], bs[16][16], sum[16][16];
  for (int by = 0; by < n; by += 16)
    for (int bx = 0; bx < n; bx += 16) {
      for (int ty = 0; ty < 16; ty++)
        for (int tx = 0; tx < 16; tx++) sum[ty][tx] = 0.0f;
      for (int k0 = 0; k0 < n; k0 += 16) {
        for (int ty = 0; ty < 16; ty++)
          for (int tx = 0; tx < 16; tx++) {
            as[ty][tx] = a[(by + ty) * n + k0 + tx];
            bs[ty][tx] = b[(k0 + ty) * n + bx + tx];
          }
        for (int ty = 0; ty < 16; ty++)
          for (int tx = 0; tx < 16; tx++)
            for (int k = 0; k < 16; k++) sum[ty][tx] += as[ty][k] * bs[k][tx];
      }
      for (int ty = 0; ty < 16; ty++)
        for (int tx = 0; tx < 16; tx++) c[(by + ty) * n + bx + tx] = sum[ty][tx];
    }
}

void matmul_register(const float* a, const float* b, float* c, int n) {
  float as[8][64], bs[8][64], sum[256][4][4];
  for (int row = 0; row < n; row += 64)
    for (int col = 0; col < n; col += 64) {
      THREADS for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) sum[t][i][j] = 0.0f;
      for (int k0 = 0; k0 < n; k0 += 8) {
        for (int i = 0; i < 512; i++) {
          as[i & 7][i >> 3] = a[(row + (i >> 3)) * n + k0 + (i & 7)];
          bs[i >> 6][i & 63] = b[(k0 + (i >> 6)) * n + col + (i & 63)];
        }
        THREADS {
          int tx = t & 15, ty = t >> 4;
          for (int k = 0; k < 8; k++)
            for (int i = 0; i < 4; i++)
              for (int j = 0; j < 4; j++) sum[t][i][j] += as[k][ty * 4 + i] * bs[k][tx + 16 * j];
        }
      }
      THREADS {
        int tx = t & 15, ty = t >> 4;
        for (int i = 0; i < 4; i++)
          for (int j = 0; j < 4; j++) c[(row + ty * 4 + i) * n + col + tx + 16 * j] = sum[t][i][j];
      }
    }
}

void flash_attention(const float* q, const float* k, const float* v, float* o,
                     int n) {
  float ks[32][64], vs[32][64], query[64][64], acc[64][64], top[64], sum[64];
  for (int head = 0; head < 4 * n * 64; head += n * 64)
    for (int row = 0; row < n; row += 64) {
      for (int t = 0; t < 64; t++) {
        top[t] = -3.4e38f;
        sum[t] = 0.0f;
        for (int d = 0; d < 64; d++) {
          query[t][d] = q[head + (row + t) * 64 + d] * 0.125f;
          acc[t][d] = 0.0f;
        }
      }
      for (int j0 = 0; j0 < n; j0 += 32) {
        for (int j = 0; j < 32; j++)
          for (int t = 0; t < 64; t++) {
            ks[j][t] = k[head + (j0 + j) * 64 + t];
            vs[j][t] = v[head + (j0 + j) * 64 + t];
          }
        for (int t = 0; t < 64; t++)
          for (int j = 0; j < 32; j++) {
            float s = 0.0f;
            for (int d = 0; d < 64; d++) s += query[t][d] * ks[j][d];
            float higher = fmaxf(top[t], s), fade = expf(top[t] - higher), p = expf(s - higher);
            sum[t] = sum[t] * fade + p;
            for (int d = 0; d < 64; d++) acc[t][d] = acc[t][d] * fade + p * vs[j][d];
            top[t] = higher;
          }
      }
      for (int t = 0; t < 64; t++)
        for (int d = 0; d < 64; d++) o[head + (row + t) * 64 + d] = acc[t][d] / sum[t];
    }
}

void histogram(const int* x, int* bins, int n) {
  for (int block = 0; block < 64; block++) {
    int mine[256] = {0};
    for (int i = block * 256; i < n; i += 64 * 256) THREADS mine[x[i + t] & 255]++;
    THREADS bins[t] += mine[t];
  }
}
