#!/bin/sh
# A scripted Python with pip. Each test has its own folder with a link to this file, named
# `python3` or `pip3`. The files `version`, `on-download` and `on-extract` beside the link define its behaviour;
# `calls` records every download and extraction, and `folders` the working folder of every call.
here=$(PATH=/usr/bin:/bin dirname "$0")
PATH=/usr/bin:/bin
pwd >>"$here/folders"

if [ "$1 $2" = "-m pip" ]; then
    if [ -e "$here/no-module" ]; then
        echo "$0: No module named pip" >&2
        exit 1
    fi
    shift 2
fi

case "$1" in
--version)
    cat "$here/version"
    ;;
download)
    echo "$*" >>"$here/calls"
    while [ $# -gt 0 ]; do
        if [ "$1" = --dest ]; then dest=$2; fi
        shift
    done
    . "$here/on-download"
    ;;
-c)
    case "$2" in *copyfileobj*) ;; *) exit 0 ;; esac
    echo "extract" >>"$here/calls"
    package=$3
    . "$here/on-extract"
    ;;
esac
