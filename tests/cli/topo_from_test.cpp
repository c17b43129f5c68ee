// `topo --from`: what texts, recordings and descriptions of machines show of a topology.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "support/program.hpp"
#include "support/schema.hpp"
#include "support/temporary_directory.hpp"

namespace nobounce::test {
namespace {

constexpr const char* matrix_text =
    "> our box, does this look right?\n"
    "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-31\t0\n"
    "GPU1\tNV18\t X \tSYS\tPXB\t32-63\t1\n"
    "NIC0\tPIX\tSYS\t X \tSYS\n"
    "NIC1\tSYS\tPXB\tSYS\t X \n"
    "\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n";

constexpr const char* xml_text = R"(<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:21:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:20:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:21:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:11:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
    </pci>
  </cpu>
</system>
)";

constexpr const char* tree_text =
    "-[0000:40]-+-00.0  Advanced Micro Devices, Inc. [AMD] Root Complex\n"
    "           \\-01.1-[41-45]----00.0-[42-45]--+-00.0-[43]----00.0  NVIDIA Corporation A100\n"
    "                                           \\-01.0-[44]----00.0  Samsung NVMe SSD PM1733\n";

struct Given {
  TemporaryDirectory folder;
  std::string path;
  explicit Given(const std::string& text) : path(folder.file("given.txt")) {
    std::ofstream(path) << text;
  }
};

TEST(TopoFrom, AMatrixOfNvidiaSmi) {
  const Given given(matrix_text);
  const Ran ran = run({"topo", "--from", given.path});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(holds(ran.out, "lines 2-")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "NIC0 = mlx5_0")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "GPU0  X     NV18")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "GPU0  GPU1 (NV18), NIC0 (PIX)")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "rails   aligned")) << ran.out;
  const core::Json document = document_of(run({"topo", "--from", given.path, "--json"}));
  EXPECT_EQ(schema_violations(document), "");
  EXPECT_EQ(text_at(document, "/topologies/0/format"), "topo_m");
}

/// What a text does not say is no statement that there is none.
TEST(TopoFrom, WhatATextDoesNotSayStaysUnknown) {
  struct Row {
    const char* text;
    const char* rails;
    const char* said;
  };
  const Row rows[] = {
      // No adapter is listed.
      {"\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n", "unknown",
       "rails   unknown: the text shows no network adapters"},
      // The row of GPU1 is missing, and the one of GPU0 ends early.
      {"\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tPHB\tPIX\n", "unknown",
       "the text does not say how near adapters are to GPU1"},
      // As near is the other adapter, or not.
      {"\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tPHB\tPIX\nGPU1\tPHB\t X \tPXB\n", "unknown",
       "GPU0  GPU1 (PHB), NIC0 (PIX; of 1 not said)"},
      {"\tGPU0\tGPU1\tNIC0\nGPU0\t X \tPHB\tPIX\nGPU1\tPHB\t X \tSYS\n", "not aligned",
       "GPU1 has none below its switch"},
  };
  for (const Row& row : rows) {
    const Given given(row.text);
    const Ran ran = run({"topo", "--from", given.path});
    EXPECT_TRUE(holds(ran.out, row.said)) << ran.out << ran.err;
    const core::Json document = document_of(run({"topo", "--from", given.path, "--json"}));
    EXPECT_EQ(schema_violations(document), "");
    EXPECT_EQ(text_at(document, "/topologies/0/rails"), row.rails) << row.text;
    const core::Json* problems = core::resolve_pointer(document, "/topologies/0/rail_problems");
    ASSERT_NE(problems, nullptr);
    EXPECT_EQ(problems->as_array()->empty(), std::string(row.rails) == "unknown") << row.text;
  }
}

/// A part of a file of NCCL without the processors: how far its trees are apart is not in it.
TEST(TopoFrom, TreesWithoutAProcessorAreNotFarApart) {
  std::string text = xml_text;
  text.erase(text.find("  <cpu"), text.find("    <pci busid=\"0000:10") - text.find("  <cpu"));
  text.erase(text.find("  </cpu>\n"), 9);
  for (std::size_t at; (at = text.find("          <nvlink")) != std::string::npos;)
    text.erase(at, text.find('\n', at) + 1 - at);
  const Given given(text);
  const Ran ran = run({"topo", "--from", given.path});
  EXPECT_FALSE(holds(ran.out, "SYS")) << ran.out << ran.err;
  EXPECT_TRUE(holds(ran.out, "GPU0  X     ?")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "GPU0  mlx5_0 (PIX)")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "does not say how near adapters are to GPU1")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "no NVLinks are in it")) << ran.out;
}

TEST(TopoFrom, ATopologyOfNccl) {
  const Given given(xml_text);
  const Ran ran = run({"topo", "--from", given.path});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(holds(ran.out, "cpu0\n  0000:10:00.0\n    GPU0  0000:11:00.0\n")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "GPU0  GPU1 (NV4), mlx5_0 (PIX)")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "not aligned: GPU1 has none below its switch")) << ran.out;
  EXPECT_EQ(schema_violations(document_of(run({"topo", "--from", given.path, "--json"}))), "");
}

TEST(TopoFrom, ATreeOfLspci) {
  const Given given(tree_text);
  const Ran ran = run({"topo", "--from", given.path});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(holds(ran.out, "43:00.0  NVIDIA Corporation A100")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "GPU x drive")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "44:00.0 (PIX or PXB)")) << ran.out;
  EXPECT_TRUE(holds(ran.out, "note: lspci shows no NVLinks")) << ran.out;
}

TEST(TopoFrom, StandardInput) {
  const Given given(matrix_text);
  const std::string command = "exec '" + program_path() + "' topo --from - < '" + given.path + "'";
  const Ran ran = Running({"sh", "-c", command}).finish();
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(holds(ran.out, "NV18")) << ran.out;
}

TEST(TopoFrom, ARecordingAndADescriptionAreTheirMachines) {
  const TemporaryDirectory folder;
  const std::string recording = folder.file("r.json");
  const std::string description = folder.file("m.json");
  ASSERT_EQ(run({"record", "--machine", "soft:workstation", "-o", recording}).exit_code, 0);
  const Ran from = run({"topo", "--from", recording});
  EXPECT_EQ(from.exit_code, 0) << from.err;
  EXPECT_EQ(from.out, run({"topo", "--machine", "recorded:" + recording}).out);
  std::ofstream(description) << run({"topo", "--machine", "soft:dgx", "--json"}).out;
  EXPECT_EQ(run({"topo", "--from", description}).out,
            run({"topo", "--machine", "soft:" + description}).out);
}

TEST(TopoFrom, SaysWhatItCannotShow) {
  const Given given("no topology in here\n");
  const Ran nothing = run({"topo", "--from", given.path});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_TRUE(holds(nothing.err, "nothing in it says how far devices are apart")) << nothing.err;
  EXPECT_TRUE(holds(nothing.err, "lspci -tv")) << nothing.err;
  EXPECT_EQ(run({"topo", "--from", given.path + "-absent"}).exit_code, 1);
  const Given matrix(matrix_text);
  const Ran drawn = run({"topo", "--from", matrix.path, "--svg", matrix.folder.file("x.svg")});
  EXPECT_EQ(drawn.exit_code, 1);
  EXPECT_TRUE(holds(drawn.err, "none to draw")) << drawn.err;
  EXPECT_EQ(run({"topo", "--from", matrix.path, "--machine", "soft:dgx"}).exit_code, 2);
}

}  // namespace
}  // namespace nobounce::test
