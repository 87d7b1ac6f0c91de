/**
 * @file simba/export.h
 * Marks that every public header uses.
 */
#ifndef SIMBA_EXPORT_H
#define SIMBA_EXPORT_H

/** Part of the library's interface; everything else is hidden in it. */
#if defined(__GNUC__)
#define SIMBA_API __attribute__((visibility("default")))
#else
#define SIMBA_API
#endif

/** Ignoring the result is a mistake, and the compiler says so. */
#if defined(__GNUC__)
#define SIMBA_MUST_USE __attribute__((warn_unused_result))
#else
#define SIMBA_MUST_USE
#endif

/** Around all declarations of a header: C++ callers need the C names. */
#if defined(__cplusplus)
#define SIMBA_BEGIN_DECLS extern "C" {
#define SIMBA_END_DECLS   }
#else
#define SIMBA_BEGIN_DECLS
#define SIMBA_END_DECLS
#endif

#endif
