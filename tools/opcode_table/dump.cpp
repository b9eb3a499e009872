// Dumps LLVM's AMDGPU instruction table as JSON lines (one object a line).
//
// First one "op" line for every opcode, pseudos included: what MCInstrDesc says. Then, for every processor named on the
// command line as NAME or NAME+features, one "use" line for every opcode that processor can really encode and
// decode: a synthetic instruction with a different register in every register operand is printed, encoded and
// decoded again. The printed text tells which machine operand shows up where, which no table does.
//
// An opcode whose printer or encoder crashes on the synthetic operands is skipped and reported as a "crash" line: each
// processor's walk runs in a child process that is restarted behind the opcode that ended it.
//
// Built and run by build.py; see there.

#include "llvm/ADT/SmallString.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCFixup.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrDesc.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace llvm;

static std::string quoted(StringRef Text) {
  std::string Out = "\"";
  for (char C : Text) {
    if (C == '"' || C == '\\') {
      Out += '\\';
      Out += C;
    } else if (C == '\t' || C == '\n') {
      Out += ' ';
    } else {
      Out += C;
    }
  }
  return Out + "\"";
}

struct Tables {
  const Target *T = nullptr;
  Triple TT{"amdgcn-amd-amdhsa"};
  std::unique_ptr<MCRegisterInfo> MRI;
  std::unique_ptr<MCInstrInfo> MII;
  MCTargetOptions Options;
  std::unique_ptr<MCAsmInfo> MAI;
};

static int kindRank(StringRef Name) {
  if (Name.starts_with("VGPR"))
    return 0;
  if (Name.starts_with("AGPR"))
    return 1;
  if (Name.starts_with("SGPR") && !Name.starts_with("SGPR_NULL"))
    return 2;
  return 3;
}

// The first registers of a class in the order in which they are to be tried: VGPR, AGPR, SGPR, the rest.
static const std::vector<MCRegister> &choices(const Tables &Tab, int Class) {
  static std::map<int, std::vector<MCRegister>> Cache;
  auto Found = Cache.find(Class);
  if (Found != Cache.end())
    return Found->second;
  std::vector<MCRegister> Sorted;
  const MCRegisterClass &RC = Tab.MRI->getRegClass(Class);
  for (int Rank = 0; Rank < 4; ++Rank) {
    unsigned Taken = 0;
    for (MCPhysReg R : RC) {
      if (kindRank(Tab.MRI->getName(R)) == Rank && Taken < 200) {
        Sorted.push_back(R);
        ++Taken;
      }
    }
  }
  return Cache.emplace(Class, std::move(Sorted)).first->second;
}

static void describe(const Tables &Tab, unsigned Opcode) {
  const MCInstrDesc &D = Tab.MII->get(Opcode);
  std::string Out;
  raw_string_ostream OS(Out);
  OS << "{\"k\":\"op\",\"name\":" << quoted(Tab.MII->getName(Opcode)) << ",\"defs\":" << D.getNumDefs()
     << ",\"ts\":" << D.TSFlags << ",\"size\":" << D.getSize() << ",\"pseudo\":" << int(D.isPseudo()) << ",\"ops\":[";
  for (unsigned I = 0; I < D.getNumOperands(); ++I) {
    const MCOperandInfo &Op = D.operands()[I];
    OS << (I ? "," : "") << "[" << int(Op.RegClass) << "," << unsigned(Op.OperandType) << ","
       << D.getOperandConstraint(I, MCOI::TIED_TO) << "]";
  }
  OS << "],\"uses\":[";
  bool First = true;
  for (MCPhysReg R : D.implicit_uses()) {
    OS << (First ? "" : ",") << quoted(Tab.MRI->getName(R));
    First = false;
  }
  OS << "],\"sets\":[";
  First = true;
  for (MCPhysReg R : D.implicit_defs()) {
    OS << (First ? "" : ",") << quoted(Tab.MRI->getName(R));
    First = false;
  }
  OS << "],\"flags\":[";
  First = true;
  auto Flag = [&](bool On, const char *Name) {
    if (On) {
      OS << (First ? "" : ",") << quoted(Name);
      First = false;
    }
  };
  Flag(D.mayLoad(), "may_load");
  Flag(D.mayStore(), "may_store");
  Flag(D.hasUnmodeledSideEffects(), "side_effects");
  Flag(D.isBranch(), "branch");
  Flag(D.isTerminator(), "terminator");
  Flag(D.isBarrier(), "barrier");
  Flag(D.isCall(), "call");
  Flag(D.isReturn(), "return");
  OS << "]}\n";
  fputs(OS.str().c_str(), stdout);
}

struct Chip {
  std::string Label;
  std::unique_ptr<MCSubtargetInfo> STI;
  std::unique_ptr<MCContext> Ctx;
  std::unique_ptr<MCInstPrinter> Printer;
  std::unique_ptr<MCCodeEmitter> Emitter;
  std::unique_ptr<MCDisassembler> Decoder;
  unsigned Mode = 0;

  Chip(const Tables &Tab, StringRef Spec) : Label(Spec.str()) {
    auto [CPU, Features] = Spec.split('+');
    std::string FS = Features.empty() ? std::string() : "+" + Features.str();
    STI.reset(Tab.T->createMCSubtargetInfo(Tab.TT, CPU, FS));
    Ctx = std::make_unique<MCContext>(Tab.TT, Tab.MAI.get(), Tab.MRI.get(), STI.get());
    Printer.reset(Tab.T->createMCInstPrinter(Tab.TT, Tab.MAI->getAssemblerDialect(), *Tab.MAI, *Tab.MII, *Tab.MRI));
    Emitter.reset(Tab.T->createMCCodeEmitter(*Tab.MII, *Ctx));
    Decoder.reset(Tab.T->createMCDisassembler(*STI, *Ctx));
    Mode = STI->getHwMode(MCSubtargetInfo::HwMode_RegInfo);
  }
};

static StringRef word(StringRef Text) { return Text.trim().take_until([](char C) { return C == ' ' || C == '\t'; }); }

static std::string print(const Chip &C, const MCInst &I) {
  std::string Out;
  raw_string_ostream OS(Out);
  C.Printer->printInst(&I, 0, "", *C.STI, OS);
  return StringRef(OS.str()).trim().str();
}

// Tries one opcode on one processor; prints its "use" line if the processor knows it.
static void tryOne(const Tables &Tab, const Chip &C, unsigned Opcode) {
  const MCInstrDesc &D = Tab.MII->get(Opcode);
  MCInst Inst;
  Inst.setOpcode(Opcode);
  std::vector<MCRegister> Used;
  std::vector<std::string> Names;
  std::vector<int> Widths;
  for (unsigned I = 0; I < D.getNumOperands(); ++I) {
    const MCOperandInfo &Op = D.operands()[I];
    int Class = Tab.MII->getOpRegClassID(Op, C.Mode);
    bool IsReg = Class >= 0 && (Op.OperandType == MCOI::OPERAND_REGISTER || Op.RegClass >= 0);
    int Tied = D.getOperandConstraint(I, MCOI::TIED_TO);
    if (!IsReg) {
      Inst.addOperand(MCOperand::createImm(0));
      Names.push_back("");
      Widths.push_back(0);
      continue;
    }
    Widths.push_back(Tab.MRI->getRegClass(Class).getSizeInBits());
    if (Tied >= 0 && Inst.getOperand(Tied).isReg()) {
      Inst.addOperand(Inst.getOperand(Tied));
      Names.push_back(Names[Tied]);
      continue;
    }
    MCRegister Chosen;
    for (MCRegister R : choices(Tab, Class)) {
      bool Free = true;
      for (MCRegister U : Used)
        Free &= !Tab.MRI->regsOverlap(R, U);
      if (Free) {
        Chosen = R;
        break;
      }
    }
    if (!Chosen) {
      if (choices(Tab, Class).empty())
        return;
      Chosen = choices(Tab, Class).front();
    }
    Used.push_back(Chosen);
    Inst.addOperand(MCOperand::createReg(Chosen));
    Names.push_back(Tab.MRI->getName(Chosen));
  }
  // The last operand of a DPP8 instruction says "fetch inactive"; its two values are the encodings of src0 itself.
  if (Tab.MII->getName(Opcode).contains("_dpp8") && Inst.getNumOperands() > 0)
    Inst.getOperand(Inst.getNumOperands() - 1) = MCOperand::createImm(0xE9);
  std::string Text = print(C, Inst);
  if (Text.empty())
    return;
  SmallString<32> Code;
  SmallVector<MCFixup, 4> Fixups;
  C.Emitter->encodeInstruction(Inst, Code, Fixups, *C.STI);
  while (Code.size() < 32)
    Code.push_back(0);
  MCInst Back;
  uint64_t Size = 0;
  ArrayRef<uint8_t> Bytes(reinterpret_cast<const uint8_t *>(Code.data()), Code.size());
  auto Status = C.Decoder->getInstruction(Back, Size, Bytes, 0, nulls());
  bool Same = Status != MCDisassembler::Fail && Back.getOpcode() == Opcode;
  std::string Again = Status != MCDisassembler::Fail ? print(C, Back) : std::string();
  bool SameText = !Again.empty() && word(Again) == word(Text);
  if (!Same && !SameText)
    return;
  std::string Out;
  raw_string_ostream OS(Out);
  OS << "{\"k\":\"use\",\"chip\":" << quoted(C.Label) << ",\"name\":" << quoted(Tab.MII->getName(Opcode))
     << ",\"same\":" << int(Same) << ",\"text\":" << int(SameText) << ",\"back\":"
     << quoted(Status != MCDisassembler::Fail ? Tab.MII->getName(Back.getOpcode()) : StringRef("")) << ",\"print\":" << quoted(Text)
     << ",\"regs\":[";
  for (unsigned I = 0; I < Names.size(); ++I)
    OS << (I ? "," : "") << quoted(Names[I]);
  OS << "],\"widths\":[";
  for (unsigned I = 0; I < Widths.size(); ++I)
    OS << (I ? "," : "") << Widths[I];
  OS << "]}\n";
  fputs(OS.str().c_str(), stdout);
}

int main(int argc, char **argv) {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUDisassembler();
  LLVMInitializeAMDGPUAsmParser();
  Tables Tab;
  std::string Error;
  Tab.T = TargetRegistry::lookupTarget("", Tab.TT, Error);
  if (!Tab.T) {
    errs() << Error << "\n";
    return 1;
  }
  Tab.MRI.reset(Tab.T->createMCRegInfo(Tab.TT));
  Tab.MII.reset(Tab.T->createMCInstrInfo());
  Tab.MAI.reset(Tab.T->createMCAsmInfo(*Tab.MRI, Tab.TT, Tab.Options));

  std::vector<unsigned> Real;
  for (unsigned Opcode = 0; Opcode < Tab.MII->getNumOpcodes(); ++Opcode) {
    const MCInstrDesc &D = Tab.MII->get(Opcode);
    describe(Tab, Opcode);
    if (!D.isPseudo() && D.getSize() != 0)
      Real.push_back(Opcode);
  }
  for (unsigned Class = 0; Class < Tab.MRI->getNumRegClasses(); ++Class)
    printf("{\"k\":\"class\",\"id\":%u,\"name\":\"%s\",\"bits\":%u}\n", Class,
           Tab.MRI->getRegClassName(&Tab.MRI->getRegClass(Class)), Tab.MRI->getRegClass(Class).getSizeInBits());
  fflush(stdout);

  auto *Progress = static_cast<volatile size_t *>(
      mmap(nullptr, sizeof(size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (int A = 1; A < argc; ++A) {
    size_t Start = 0;
    while (Start < Real.size()) {
      *Progress = Start;
      pid_t Child = fork();
      if (Child == 0) {
        freopen("/dev/null", "w", stderr);
        Chip C(Tab, argv[A]);
        for (size_t I = Start; I < Real.size(); ++I) {
          *Progress = I;
          tryOne(Tab, C, Real[I]);
          fflush(stdout);
        }
        *Progress = Real.size();
        _exit(0);
      }
      int Status = 0;
      waitpid(Child, &Status, 0);
      if (*Progress >= Real.size())
        break;
      printf("{\"k\":\"crash\",\"chip\":\"%s\",\"name\":\"%s\"}\n", argv[A],
             Tab.MII->getName(Real[*Progress]).str().c_str());
      fflush(stdout);
      Start = *Progress + 1;
    }
  }
  return 0;
}
