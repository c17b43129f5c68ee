// A double of a libcufile before statistics and parameters: opening and use count alone.
extern "C" long cuFileUseCount() {
  return 44;
}
