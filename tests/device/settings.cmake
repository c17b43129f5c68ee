# The device tests go to a machine with a GPU.
nobounce_carry(device_tests)
