# Front door. The build itself is CMake: see CMakePresets.json and CONTRIBUTING.md.

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

.PHONY: help setup demo program test lab release layers format tidy dist device install clean

help:
	@echo 'make setup     install missing packages (apt; sudo when not root)'
	@echo 'make demo      build the program and show it on a software machine; needs no GPU'
	@echo 'make test      all tests: sanitizers, layers, threads under TSan, short fuzzing'
	@echo 'make lab       QEMU guests: NVMe through vfio-pci with an IOMMU, soft-RoCE; needs no KVM'
	@echo 'make layers    who may include whom, and effects only behind the seam'
	@echo 'make format    clang-format 14; make tidy: clang-tidy 14'
	@echo 'make dist      a relocatable binary in dist/'
	@echo 'make device    dist/device: what bench/on_gpu.sh needs on a machine with a GPU and no tools'
	@echo 'make install   program, library and headers below PREFIX ($(PREFIX)); DESTDIR is honoured'
	@echo 'make clean     remove build/ and dist/'

setup:
	@tools/setup

program:
	@tools/setup program
	@cmake --preset demo >/dev/null
	@cmake --build --preset demo -j $(JOBS)

demo: program
	@tools/demo

test: setup
	@JOBS=$(JOBS) tools/run_tests

lab: program
	@tools/setup lab
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev -j $(JOBS) --target nobounce_lab nobounce_conformance
	@lab/run

release: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

layers:
	@tools/layers
	@tools/layers --self-test

format:
	@tools/clang_tool clang-format 14 -i

tidy:
	@cmake --preset dev >/dev/null
	@tools/clang_tool clang-tidy 14 -p build/dev --quiet

dist:
	@tools/setup program
	@cmake --preset dist >/dev/null
	@cmake --build --preset dist -j $(JOBS)
	@mkdir -p dist
	@strip -o dist/nobounce build/dist/nobounce
	@tools/symbols dist/nobounce 2.28

device: setup
	@cmake --preset device >/dev/null
	@cmake --build --preset device -j $(JOBS)
	@mkdir -p dist/device
	@for program in nobounce nobounce_conformance device_tests nobounce_gpu_bench libnobounce_adopt.so; do \
	  strip -o dist/device/$$program build/device/$$program || exit 1; \
	  tools/symbols dist/device/$$program 2.39 || exit 1; done
	@cp tests/conformance/h200-*.json tests/conformance/explained.txt dist/device/
	@git rev-parse --short HEAD >dist/device/commit 2>/dev/null || true

install: program
	@DESTDIR=$(DESTDIR) cmake --install build/demo --prefix $(PREFIX)

clean:
	@rm -rf build dist
