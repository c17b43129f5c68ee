// A double of an old CUDA driver: two functions of the list and nothing else.
extern "C" int cuInit(unsigned) {
  return 41;
}
extern "C" int cuDeviceGetCount(int* count) {
  *count = 7;
  return 0;
}
